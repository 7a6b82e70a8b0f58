"""Throughput: samples and queries answered a second, a row a run."""

from typing import Any

from mlscope.client.quantities import number
from mlscope.counts import many, verb
from mlscope.statistics import Throughput
from mlscope.statistics import throughput as rate_of
from schemas.analysis import Table
from schemas.level import Level, level_of
from services.analyzer.frames import Frames, Run, contiguous_ends_ns, spaced_hz
from services.analyzer.tables.charts import estimates
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    doubts,
    estimate,
    made,
    real,
    run_cells,
    text,
    whole,
    with_interval,
)

COUNTERS_ALONE = "Runs for hardware counters alone answered queries: a replay tells of no rate."


def throughput(frames: Frames) -> Table:
    """Return each run's rate; the time between its blocks, which others used, is taken out."""
    rows = [_cells(run) for run in frames.measured]
    partial = [
        f"{run.row.run}: {many(run.failed_samples, 'sample')} failed in queries that were answered "
        f"in part; {verb(run.failed_samples, 'it does', 'they do')} not count"
        for run in frames.measured
        if run.failed_samples
    ]
    return made(ANALYSIS, rows, _verdict(frames, rows), [*doubts(frames), *partial])


def _verdict(frames: Frames, rows: list[dict[str, Any]]) -> str:
    answered = [
        (run, row)
        for run, row in zip(frames.measured, rows, strict=True)
        if row["samples_per_s"] is not None
    ]
    if not answered:
        return "No query was answered."
    timed = [(run, row) for run, row in answered if not is_for_counters(run)]
    if not timed:
        return COUNTERS_ALONE
    rated = [row for run, row in timed if not run.row.variant] or [row for _, row in timed]
    # An open loop's rate is its load's, not the system's: a closed loop tells more.
    closed = [row for row in rated if row["offered_per_s"] is None]
    loop = " of a closed loop" if len(closed) in range(1, len(rated)) else ""
    best = max(_least_traced(closed or rated), key=lambda row: row["samples_per_s"])
    return (
        f"Most samples a second{loop}: {number(best['samples_per_s'])} in {best['run']} "
        f"({best['scenario']}, batch {best['batch_size']}, level {best['level']})."
    )


def _least_traced(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the shallowest level: a deeper one's tracing is no rate of the model's."""
    shallowest = min(level_of(row["level"]) for row in rows)
    return [row for row in rows if level_of(row["level"]) == shallowest]


def is_for_counters(run: Run) -> bool:
    """Whether a run is there for hardware counters: a profiler may replay each kernel in it."""
    return run.row.level == Level.HARDWARE


def samples_rate(run: Run) -> Throughput | None:
    """Return a run's samples a second; None where nothing was answered or no time went by."""
    ends = contiguous_ends_ns(run.answered)
    if len(ends) == 0 or ends.max() <= 0:
        return None
    return rate_of(0, ends, run.answered_samples)


def _cells(run: Run) -> dict[str, Any]:
    frame = run.answered
    nothing = {"samples": 0, "busy_ns": None, "offered_per_s": None}
    cells = {**run_cells(run.row), "agent": run.row.agent, "queries": frame.height, **nothing}
    samples = samples_rate(run)
    if samples is None:
        missing = ("samples_per_s", "queries_per_s")
        return cells | {
            k: v for name in missing for k, v in with_interval(name, None, None).items()
        }
    ends = contiguous_ends_ns(frame)
    queries = rate_of(0, ends, [1] * frame.height)
    return cells | {
        "samples": samples.samples,
        "busy_ns": int(ends.max()),
        "offered_per_s": spaced_hz(run.queries, "due_ns"),
        **with_interval("samples_per_s", samples.rate_hz, samples.interval),
        **with_interval("queries_per_s", queries.rate_hz, queries.interval),
    }


ANALYSIS = Analysis(
    name="throughput",
    title="Throughput",
    source=(
        "Samples answered over the time from the first issue to the last answer, block by block; "
        "intervals by batch means (Cochran's ratio estimator, Student's t)."
    ),
    columns=(
        *RUN_COLUMNS,
        text("agent", "Where it ran."),
        whole("queries", "Queries answered."),
        whole("samples", "Samples in them that have an answer."),
        whole("busy_ns", "Time of the run's own blocks.", "ns"),
        *estimate("samples_per_s", "Samples answered a second.", "1/s"),
        *estimate("queries_per_s", "Queries answered a second.", "1/s"),
        real("offered_per_s", "Queries due a second, in an open loop.", "1/s"),
    ),
    compute=throughput,
    chart=estimates(
        ("batch_size", "Batch size"),
        ("samples_per_s", "Samples per second"),
        "run",
        "scenario",
        "level",
        "agent",
    ),
)
