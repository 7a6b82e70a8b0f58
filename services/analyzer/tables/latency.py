"""Latency: from when a query was due (closed loop: issued) to its answer, a row a run."""

import json
from collections import defaultdict
from typing import Any

from mlscope.client.quantities import number
from mlscope.counts import many
from mlscope.statistics import mean_interval, minimum_count
from schemas.analysis import Table
from services.analyzer.frames import Frames, Ns, Run, spaced_hz
from services.analyzer.tables.charts import percentiles
from services.analyzer.tables.failures import first_reason
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    doubts,
    estimate,
    in_time,
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
from services.analyzer.tables.throughput import is_for_counters, samples_rate

MOST_IN_VERDICT = 6
COUNTERS_ALONE = "Runs for hardware counters alone answered queries: a replay tells of no latency."
_PERCENTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
_CERTIFIED = {p: minimum_count(p) for p in _PERCENTILES.values() if p > 0.5}
_BATCHED = "batched"


def latency(frames: Frames) -> Table:
    """Return statistics of each run's latency, and of its service time beside it."""
    runs = frames.measured
    rows = [_cells(run) for run in runs]
    results = {row["run"]: row["result"] for row in rows}
    caveats = [*doubts(frames), *(note for run in runs for note in _notes(run, frames))]
    return made(ANALYSIS, rows, _verdict(frames, results), caveats)


def _verdict(frames: Frames, results: dict[str, str]) -> str:
    """Return the result of each scenario; loops are never compared with each other."""
    groups: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in frames.measured:
        row = run.row
        if run.answered.height and not is_for_counters(run):
            parameters = json.dumps(dict(row.parameters), sort_keys=True, default=str)
            groups[row.agent, row.scenario, parameters].append(run)
    if not groups:
        has_answers = any(run.answered.height for run in frames.measured)
        return COUNTERS_ALONE if has_answers else "No query was answered."
    told = []
    for runs in list(groups.values())[:MOST_IN_VERDICT]:
        row = _telling(runs).row
        told.append(f"{row.scenario} at batch {row.batch_size} {results[row.run]} ({row.run})")
    left = len(groups) - len(told)
    return f"Final performance result: {'; '.join(told)}{f'; and {left} more' if left else ''}."


def _telling(runs: list[Run]) -> Run:
    """Return the run that stands for its load: whole, then plain, traced least, the fastest.

    Where latency is the result, the smallest batch stands for it. What a run that is serialised, or
    warm behind a cold start, takes is only told where there is no other.
    """
    runs = [run for run in runs if run.row.end == "completed"] or runs
    runs = [run for run in runs if not run.row.variant] or runs
    level = min(run.row.level for run in runs)
    least = [run for run in runs if run.row.level == level]
    if least[0].row.scenario != _BATCHED:
        return min(least, key=lambda run: run.row.batch_size)
    rates = [rate.rate_hz if (rate := samples_rate(run)) else 0.0 for run in least]
    return least[rates.index(max(rates))]


def _notes(run: Run, frames: Frames) -> list[str]:
    notes = []
    count = run.answered.height
    if run.failed:
        reason = first_reason(run, frames.samples)
        why = f", first: {reason}" if reason else ""
        asked = many(run.queries.height, "query")
        notes.append(f"{run.row.run}: {run.failed} of {asked} failed{why}")
    if run.failed_samples:
        notes.append(
            f"{run.row.run}: {many(run.failed_samples, 'sample')} failed in queries that were "
            "answered in part, whose times count"
        )
    short = [f"p{100 * p:g} ({need})" for p, need in _CERTIFIED.items() if count < need]
    if count and short:
        notes.append(f"{run.row.run}: too few answered, {count}, to certify {', '.join(short)}")
    return notes


def _cells(run: Run) -> dict[str, Any]:
    values, service = run.latency_ns, run.service_ns
    cells: dict[str, Any] = {
        **run_cells(run.row),
        "agent": run.row.agent,
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
    """Return the result as the scenario defines it: latency alone, under load, or samples."""
    if not cells["count"]:
        return "no result: no query was answered"
    if is_for_counters(run):
        return "no result: a run for hardware counters"
    if run.is_open_loop:
        offered_hz = spaced_hz(run.queries, "due_ns")
        under = f" at {number(offered_hz)} queries/s" if offered_hz else ""
        return f"99th percentile {in_time(cells['p99'])}{under}"
    rate = samples_rate(run)
    if run.row.scenario == _BATCHED and rate:
        return f"{number(rate.rate_hz)} samples/s"
    return f"trimmed mean {in_time(cells['trimmed_mean'])}, 90th percentile {in_time(cells['p90'])}"


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
        text("agent", "Where it ran."),
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
        text("result", "The scenario's final performance result."),
    ),
    compute=latency,
    chart=percentiles(
        ("run", "Run"),
        {
            "min": "least",
            "trimmed_mean": "trimmed mean",
            "median": "median",
            "p90": "90th percentile",
            "p99": "99th percentile",
            "max": "most",
        },
        "Latency (ns)",
        "scenario",
        "batch_size",
        "level",
        "count",
    ),
)
