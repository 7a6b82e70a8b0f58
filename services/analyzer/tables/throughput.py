"""Throughput: samples and queries answered per second, a row for each run."""

from collections.abc import Mapping
from typing import Any

from mlscope.counts import many, verb
from mlscope.quantities import number
from mlscope.statistics import throughput as rate_of
from schemas.analysis import Table
from schemas.level import level_of
from services.analyzer.building.best import capitalised, estimate_text, leader
from services.analyzer.building.charts import Axis, bars
from services.analyzer.building.rates import is_for_counters, samples_rate
from services.analyzer.building.table import (
    PREPARED_COLUMN,
    RUN_COLUMNS,
    Analysis,
    estimate_columns,
    float_column,
    int_column,
    make_table,
    run_cells,
    run_warnings,
    text_column,
    with_interval,
)
from services.analyzer.frames.evaluation import Frames, contiguous_ends_ns, spaced_hz

ONLY_COUNTERS = "Only runs for hardware counters answered queries; replays have no rate."


def throughput(frames: Frames) -> Table:
    """Return each run's rate, without the time between its blocks, in which other runs ran.

    The rates (1/s) of a run without answers or elapsed time are null.
    """
    rows = []
    for run in frames.measured:
        cells: dict[str, Any] = {
            **run_cells(run.row),
            "agent": run.row.agent,
            "prepared": run.row.prepared_text,
            "queries": run.answered.height,
            "samples": 0,
            "busy_ns": None,
            "offered_per_s": None,
            **with_interval("samples_per_s", None, None),
            **with_interval("queries_per_s", None, None),
        }
        samples = samples_rate(run)
        if samples is not None:
            ends = contiguous_ends_ns(run.answered)
            ones = [1] * run.answered.height
            queries = rate_of(0, ends, ones, blocks=run.answered_blocks)
            cells |= {
                "samples": samples.samples,
                "busy_ns": int(ends.max()),
                "offered_per_s": spaced_hz(run.queries, "due_ns"),
                **with_interval("samples_per_s", samples.rate_hz, samples.interval),
                **with_interval("queries_per_s", queries.rate_hz, queries.interval),
            }
        rows.append(cells)
    caveats = run_warnings(frames)
    caveats += [
        f"{run.row.run}: {many(run.failed_samples, 'sample')} failed in partly answered queries; "
        f"{verb(run.failed_samples, 'it does', 'they do')} not count"
        for run in frames.measured
        if run.failed_samples
    ]
    return make_table(ANALYSIS, rows, _verdict(frames, rows), caveats)


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
        return ONLY_COUNTERS
    # A run that was cut off is named only where no other one has a rate.
    timed = [(run, row) for run, row in timed if not run.cut_off_text] or timed
    cut_off = {run.row.run: f", {run.cut_off_text}" for run, _ in timed if run.cut_off_text}
    rated = [row for run, row in timed if not run.row.variant] or [row for _, row in timed]
    # The rate of an open loop is that of its load, not of the system.
    closed = [row for row in rated if row["offered_per_s"] is None]
    if not closed:
        return _offered_verdict(rated, cut_off)
    loop = " of a closed loop" if len(closed) < len(rated) else ""
    level = min(level_of(row["level"]) for row in closed)
    fastest = leader([row for row in closed if level_of(row["level"]) == level], "samples_per_s")
    question = f"which throughput{loop} is the highest"
    if doubt := fastest.doubt(question, lambda row: f"{_rate_text(row)} in {row['run']}"):
        return f"{capitalised(doubt)}."
    row = fastest.row
    place = f"{row['scenario']}, batch {row['batch_size']}, level {row['level']}"
    mode = f", samples {row['prepared']}" if row["prepared"] else ""
    end = cut_off.get(row["run"], "")
    is_traced_faster = any(deeper["samples_per_s"] > row["samples_per_s"] for deeper in closed)
    rule = "; runs at deeper trace levels do not count" if is_traced_faster else ""
    return (
        f"Highest throughput{loop}: {_rate_text(row)} in {row['run']} ({place}{mode}{end}){rule}."
    )


def _offered_verdict(rows: list[dict[str, Any]], cut_off: Mapping[str, str]) -> str:
    """Return the verdict of open loops, whose rate is offered to the system.

    `cut_off` says by run after how many queries it was cancelled.
    """
    row = min(rows, key=lambda row: level_of(row["level"]))
    loads = {
        (row["agent"], row["scenario"], row["batch_size"], row["offered_per_s"]) for row in rows
    }
    further = f"; and {many(len(loads) - 1, 'more load')}" if len(loads) > 1 else ""
    end = cut_off.get(row["run"], "")
    return (
        f"{estimate_text(row, 'queries_per_s', 'queries/s')} were answered of "
        f"{number(row['offered_per_s'])} offered in {row['run']} ({row['scenario']}, batch "
        f"{row['batch_size']}{end}): an offered rate, not the system's highest{further}."
    )


def _rate_text(row: dict[str, Any]) -> str:
    return estimate_text(row, "samples_per_s", "samples/s")


ANALYSIS = Analysis(
    name="throughput",
    title="Throughput",
    source=(
        "Samples answered divided by the time from the first issue to the last answer, block by "
        "block; intervals by batch means (Cochran's ratio estimator, Student's t; of fewer "
        "than three blocks, groups that correlate with the one before count as fewer). With "
        "samples prepared ahead it is the model's rate; with streamed ones preparation limits it, "
        "too."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("agent", "The agent that ran it."),
        PREPARED_COLUMN,
        int_column("queries", "Queries answered."),
        int_column("samples", "Answered samples in them."),
        int_column("busy_ns", "Time of the run's own blocks.", "ns"),
        *estimate_columns("samples_per_s", "Samples answered per second.", "1/s"),
        *estimate_columns("queries_per_s", "Queries answered per second.", "1/s"),
        float_column(
            "offered_per_s", "Queries, not samples, due per second in an open loop.", "1/s"
        ),
    ),
    compute=throughput,
    chart=bars(
        ("run", "Run"),
        Axis("samples_per_s", "Samples per second"),
        "scenario",
        "level",
        "agent",
        "batch_size",
        facet="",
    ),
)
