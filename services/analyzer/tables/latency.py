"""Latency of each run: from when a query was due (closed loop: issued) to its answer."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from mlscope.counts import many
from mlscope.quantities import estimated, number
from mlscope.statistics import (
    is_certified,
    minimum_count,
    trimmed_widening,
    widened,
    winsorised_interval,
)
from schemas.analysis import Table
from schemas.run import ENDED_EARLY
from services.analyzer.building.best import estimate_text
from services.analyzer.building.charts import Axis, spreads
from services.analyzer.building.rates import is_for_counters, samples_rate
from services.analyzer.building.table import (
    PREPARED_COLUMN,
    RUN_COLUMNS,
    Analysis,
    behind_others,
    estimate_columns,
    float_column,
    format_time,
    int_column,
    make_table,
    overlap_warnings,
    percentile_cells,
    run_cells,
    run_warnings,
    text_column,
    trimmed_cells,
    with_interval,
)
from services.analyzer.frames.evaluation import Frames, Run, spaced_hz
from services.analyzer.tables.copies import undivided_notes
from services.analyzer.tables.failures import first_reason

MOST_IN_VERDICT = 6
ONLY_COUNTERS = "Only runs for hardware counters answered queries; replays have no latencies."
PACED_REMOTELY = (
    "pacing is remote: latency includes the network and the queue, service_median does not"
)
_PERCENTILES = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
_CERTIFIED = {p: minimum_count(p) for p in _PERCENTILES.values() if p > 0.5}
_BATCHED = "batched"


def latency(frames: Frames) -> Table:
    """Return statistics (ns) of each run's latency and service time, and its result."""
    runs = frames.measured
    rows = [_latency_row(run) for run in runs]
    results = {row["run"]: row["result"] for row in rows}
    caveats = [*run_warnings(frames), *overlap_warnings(frames), *undivided_notes(frames)]
    caveats += [note for run in runs for note in _notes(run, frames)]
    remote = (run.row.run for run in runs if run.row.pacing == "remote" and run.answered.height)
    caveats += [f"{run}: {PACED_REMOTELY}" for run in remote]
    return make_table(ANALYSIS, rows, _verdict(frames, results), caveats)


def _verdict(frames: Frames, results: dict[str, str]) -> str:
    """Return the result of each load; open and closed loops are never compared."""
    groups = runs_by_load(frames.measured)
    if not groups:
        has_answers = any(run.answered.height for run in frames.measured)
        return ONLY_COUNTERS if has_answers else "No query was answered."
    sentences = []
    for runs in groups[:MOST_IN_VERDICT]:
        run = representative(runs)
        row = run.row
        mode = f"samples {row.prepared_text}" if row.prepared else ""
        place = ", ".join(filter(None, [row.run, mode, behind_others(row), run.cut_off_text]))
        is_early = any(note.startswith(ENDED_EARLY) for note in row.caveats)
        early = ", less precise than requested" if is_early else ""
        load = f"{row.scenario} at batch {row.batch_size}"
        sentences.append(f"{load} {results[row.run]} ({place}{early})")
    omitted = len(groups) - len(sentences)
    omission = f"; and {omitted} more" if omitted else ""
    return f"Final performance result: {'; '.join(sentences)}{omission}."


def runs_by_load(runs: Iterable[Run]) -> list[list[Run]]:
    """Return the runs that answered queries, those of each agent, scenario and parameters apart.

    Runs for hardware counters are left out: a profiler replays their kernels.
    """
    groups: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in runs:
        if run.answered.height and not is_for_counters(run):
            groups[run.row.agent, run.row.scenario, run.row.parameters_text].append(run)
    return list(groups.values())


def representative(runs: list[Run]) -> Run:
    """Return the run that represents its load: completed, plain, of the shallowest level.

    Of these it is the run with the highest rate for `batched`, else with the smallest batch.
    Serialised runs, and warm runs after a cold start, count only where there are no others.
    """
    ranks = [(run.row.end != "completed", bool(run.row.variant), run.row.level) for run in runs]
    shallowest = [run for run, rank in zip(runs, ranks, strict=True) if rank == min(ranks)]
    if shallowest[0].row.scenario != _BATCHED:
        return min(shallowest, key=lambda run: run.row.batch_size)
    rates = [rate.rate_hz if (rate := samples_rate(run)) else 0.0 for run in shallowest]
    return shallowest[rates.index(max(rates))]


def _notes(run: Run, frames: Frames) -> list[str]:
    notes = []
    count = run.answered.height
    if run.failed:
        reason = first_reason(run, frames.samples)
        first = f", first: {reason}" if reason else ""
        queries = many(run.queries.height, "query")
        notes.append(f"{run.row.run}: {run.failed} of {queries} failed{first}")
    if run.failed_samples:
        notes.append(
            f"{run.row.run}: {many(run.failed_samples, 'sample')} failed in partly answered "
            "queries, whose times count"
        )
    short = [
        f"p{100 * p:g} ({need})" for p, need in _CERTIFIED.items() if not is_certified(p, count)
    ]
    if count and short:
        answered = many(count, "answered query")
        notes.append(f"{run.row.run}: {answered}: too few to certify {', '.join(short)}")
    return notes


def _latency_row(run: Run) -> dict[str, Any]:
    """Return the statistics (ns) of a run's latency and service time, and its result."""
    values, service, blocks = run.latency_ns, run.service_ns, run.answered_blocks
    cells: dict[str, Any] = {
        **run_cells(run.row),
        "agent": run.row.agent,
        "prepared": run.row.prepared_text,
        "loop": "open" if run.is_open_loop else "closed",
        "count": len(values),
        "failed": run.failed,
        **trimmed_cells("trimmed_mean", values, blocks),
        **with_interval("mean", None, None),
        "min": None,
        "max": None,
        "service_count": len(service),
        **percentile_cells("service_median", service, 0.5),
    }
    if len(values):
        interval, mean = winsorised_interval(values, 0.0), float(values.mean())
        factor = trimmed_widening(values, blocks, 0.0)
        cells |= with_interval("mean", mean, widened(interval, mean, factor))
        cells |= {"min": float(values.min()), "max": float(values.max())}
    for name, p in _PERCENTILES.items():
        # One query, as of a cold start, has no percentiles but its median.
        has_one = len(values) > 1 or p <= 0.5
        cells |= percentile_cells(name, values if has_one else (), p, blocks)
    return cells | {"result": result_of(run, cells)}


def result_of(run: Run, cells: dict[str, Any]) -> str:
    """Return the result that the scenario defines: latency, latency under load, or samples/s.

    `cells` are the statistics of the run's latency.
    """
    if not cells["count"]:
        return "no result: no query was answered"
    if is_for_counters(run):
        return "no result: a run for hardware counters"
    rate = samples_rate(run)
    if run.row.scenario == _BATCHED and rate:
        return estimated(rate.rate_hz, rate.interval.low, rate.interval.high, "samples/s")
    if cells["count"] == 1:
        return f"{format_time(cells['median'])} in one query, which has no percentile"
    if run.is_open_loop:
        offered_hz = spaced_hz(run.queries, "due_ns")
        load = f" at {number(offered_hz)} queries/s offered" if offered_hz else ""
        return f"99th percentile {estimate_text(cells, 'p99')}{load}{_doubt(cells, 'p99')}"
    mean, p90 = estimate_text(cells, "trimmed_mean"), estimate_text(cells, "p90")
    return f"trimmed mean {mean}, 90th percentile {p90}{_doubt(cells, 'p90')}"


def _doubt(cells: dict[str, Any], percentile: str) -> str:
    """Return that too few queries certify a percentile; '' where enough do."""
    count = cells["count"]
    if is_certified(_PERCENTILES[percentile], count):
        return ""
    return f", not certified by {many(count, 'query')}"


ANALYSIS = Analysis(
    name="latency",
    title="Latency of queries",
    source=(
        "MLModelScope: trimmed mean without the lowest and highest 20%. Percentiles are nearest "
        "rank with order-statistic intervals; means have Student's t with the winsorised variance "
        "(Tukey and McLaughlin 1963). An open loop counts from the due time, so waiting counts too "
        "(no coordinated omission). With samples prepared ahead it ends when the outputs are in "
        "memory; with streamed ones it includes preparation and post-processing."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("agent", "The agent that ran it."),
        PREPARED_COLUMN,
        text_column(
            "loop", "open: queries had due times; closed: each query waited for the one before."
        ),
        int_column("count", "Queries answered."),
        int_column("failed", "Queries that failed or were lost."),
        *estimate_columns("trimmed_mean", "Mean without the lowest and highest 20%."),
        *estimate_columns("mean", "Mean."),
        *estimate_columns("median", "Median."),
        *estimate_columns("p90", "90th percentile."),
        *estimate_columns("p95", "95th percentile."),
        *estimate_columns("p99", "99th percentile."),
        *estimate_columns("p99_9", "99.9th percentile."),
        float_column("min", "Minimum."),
        float_column("max", "Maximum."),
        int_column("service_count", "Answered queries with a known service time."),
        *estimate_columns("service_median", "Median of the agent's own time per query."),
        text_column("result", "The scenario's final performance result."),
    ),
    compute=latency,
    chart=spreads(
        ("run", "Run"),
        {
            "median": "median",
            "p90": "90th percentile",
            "p99": "99th percentile",
        },
        Axis("", "Latency", "ns"),
        "scenario",
        "batch_size",
        "level",
        "count",
        extremes=("min", "max"),
        is_logarithmic=True,
    ),
)
