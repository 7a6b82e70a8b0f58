"""Latency: from when a query was due (closed loop: issued) to its answer, a row a run."""

from typing import Any

from mlscope.statistics import mean_interval, minimum_count
from schemas.analysis import Table
from services.analyzer.frames import Frames, Ns, Run
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    estimate,
    in_ms,
    made,
    percentile_cells,
    real,
    resampling,
    run_cells,
    text,
    trimmed_cells,
    whole,
    with_interval,
)

_PERCENTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}


def latency(frames: Frames) -> Table:
    """Return statistics of each run's latency, and of its service time beside it."""
    runs = frames.measured
    rows = [_cells(run) for run in runs]
    timed = [row for row in rows if row["count"]]
    verdict = "No query was answered."
    if timed:
        best = min(timed, key=lambda row: row["trimmed_mean"] / row["batch_size"])
        verdict = (
            f"Fastest per sample is {best['run']} ({best['scenario']}, batch "
            f"{best['batch_size']}): trimmed mean {in_ms(best['trimmed_mean'])} a query "
            f"over {best['count']}."
        )
    caveats = [*frames.caveats, *(note for run in runs for note in _notes(run))]
    return made(ANALYSIS, rows, verdict, caveats)


def _notes(run: Run) -> list[str]:
    notes = []
    count = run.answered.height
    if run.failed:
        notes.append(f"{run.row.run}: {run.failed} of {run.queries.height} queries failed")
    if 0 < count < minimum_count(0.99):
        notes.append(
            f"{run.row.run}: too few queries to certify the 99th percentile: {count}, where "
            f"{minimum_count(0.99)} would do"
        )
    return notes


def _cells(run: Run) -> dict[str, Any]:
    values, service = run.latency_ns, run.service_ns
    cells: dict[str, Any] = {
        **run_cells(run.row),
        "loop": "open" if run.is_open_loop else "closed",
        "count": len(values),
        "failed": run.failed,
        **trimmed_cells("trimmed_mean", values),
        **_mean_cells(values),
        "min": float(values.min()) if len(values) else None,
        "max": float(values.max()) if len(values) else None,
        "service_count": len(service),
        **percentile_cells("service_median", service, 0.5),
    }
    for name, p in _PERCENTILES.items():
        cells |= percentile_cells(name, values, p)
    return cells | {"result": _result(run, cells)}


def _mean_cells(values: Ns) -> dict[str, Any]:
    if len(values) == 0:
        return with_interval("mean", None, None)
    interval = mean_interval(values, resampling=resampling(len(values)))
    return with_interval("mean", float(values.mean()), interval)


def _result(run: Run, cells: dict[str, Any]) -> str:
    """Return the scenario's result as MLPerf words it: p90 alone, p99 under load."""
    if not cells["count"]:
        return "no result: no query was answered"
    if run.is_open_loop:
        return f"99th percentile latency {in_ms(cells['p99'])}"
    return f"90th percentile latency {in_ms(cells['p90'])}"


ANALYSIS = Analysis(
    name="latency",
    title="Latency of queries",
    source=(
        "MLModelScope: trimmed mean without the lowest and highest 20 %. Percentiles are nearest "
        "rank with order-statistic intervals; means have bootstrap intervals. Open loop: from due "
        "time, so that waiting counts (coordinated omission)."
    ),
    columns=(
        *RUN_COLUMNS,
        text("loop", "open: queries had due times; closed: each waited for the one before."),
        whole("count", "Queries answered."),
        whole("failed", "Queries failed or lost."),
        *estimate("trimmed_mean", "Mean without the lowest and highest 20 %."),
        *estimate("mean", "Mean."),
        *estimate("median", "Median."),
        *estimate("p90", "90th percentile."),
        *estimate("p95", "95th percentile."),
        *estimate("p99", "99th percentile."),
        *estimate("p99_9", "99.9th percentile."),
        real("min", "Least."),
        real("max", "Most."),
        whole("service_count", "Answered queries whose service time is known."),
        *estimate("service_median", "Median of the agent's own time for a query."),
        text("result", "The scenario's result line."),
    ),
    compute=latency,
)
