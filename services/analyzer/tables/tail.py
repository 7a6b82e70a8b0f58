"""Tail: why slow queries are slow, part by part, compared with queries around the median."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from schemas.analysis import Table
from services.analyzer.building.best import leader
from services.analyzer.building.charts import Axis, bars
from services.analyzer.building.margins import Margin, difference, mean_margin
from services.analyzer.building.pipelines.stages import STAGES, has_overlapping_stages, stage_times
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    estimate_columns,
    float_column,
    format_share,
    format_time,
    int_column,
    make_table,
    of_first_run,
    run_cells,
    run_warnings,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import LAYER_LEVEL, OPERATOR_LEVEL, Frames, Run

SLOWEST = 0.01
TYPICAL = (0.4, 0.6)
LEAST_QUERIES = 20
"""A run with fewer queries has no tail to explain."""
MOST_LAYERS = 5
_LATE, _OUTSIDE = "issued late", "outside operators"
_WHOLE = ("wait", "operator", "stage")
"""The kinds of parts that add up to a query."""
_WAITING = "waiting for "
_PLACES = {_LATE: "from being issued late", _OUTSIDE: _OUTSIDE}
"""What follows "a share of it" for parts whose name is no noun."""


def tail(frames: Frames) -> Table:
    """Return a row for each part of a query: its time in slow queries minus that in typical."""
    rows = [row for run in frames.measured for row in _tail_rows(run)]
    verdict = f"No run has {LEAST_QUERIES} queries: there is no tail to explain."
    if rows:
        parts = [row for row in of_first_run(rows) if row["kind"] in _WHOLE]
        verdict = _verdict(rows[0], parts)
    return make_table(ANALYSIS, rows, verdict, run_warnings(frames))


def _verdict(query: dict[str, Any], parts: list[dict[str, Any]]) -> str:
    """Return the excess of slow queries and the part with most of it, or the untraced share."""
    count, run = query["slow_queries"], query["run"]
    subject = f"The slowest {count} queries of {run} take on average"
    if count == 1:
        subject = f"The slowest query of {run} takes"
    verdict = f"{subject} {format_time(query['excess'])} more than typical ones"
    if query["excess"] <= 0:
        return f"{verdict}."
    top = max(parts, key=lambda row: row["excess"])
    if top["excess"] > 0:
        is_wait = top["part"].startswith(_WAITING)
        place = _PLACES.get(top["part"], top["part"] if is_wait else f"in {top['part']}")
        part = f"{format_share(top['share'])} of it {place}"
        if round(top["share"], 3) > 1.0:
            part = f"all of it {place} ({format_time(top['excess'])} more; the rest takes less)"
        verdict += f", {part}{_doubt(parts, count)}"
    untraced = 1.0 - sum(row["share"] for row in parts)
    if untraced > max(top["share"], 0.0):
        amount = "most" if round(untraced, 3) > 1.0 else format_share(untraced)
        verdict += f"; {amount} of it was not traced"
    return f"{verdict}."


def _doubt(parts: list[dict[str, Any]], count: int) -> str:
    """Return which parts may have most of the excess of `count` slow queries.

    One query is explained as it was; several stand for others, so that intervals count.
    """
    slow = [row for row in parts if row["excess"] > 0]
    if count == 1:
        return ""
    doubt = leader(slow, "excess").doubt("which part has most of it", lambda row: str(row["part"]))
    return f"; {doubt}" if doubt else ""


def _tail_rows(run: Run) -> list[dict[str, Any]]:
    """Return a row for each part of a run's queries; none with fewer than `LEAST_QUERIES`."""
    frame = run.answered.with_columns(pl.Series("latency", run.latency_ns))
    if frame.height < LEAST_QUERIES:
        return []
    rising = frame.sort("latency", "query")
    count = max(round(SLOWEST * frame.height), 1)
    low, high = (int(bound * frame.height) for bound in TYPICAL)
    slow, typical = rising.tail(count)["query"], rising[low:high]["query"]
    query = "query", "query", frame.select("query", ns="latency")
    parts = []
    for kind, name, times in (query, *parts_of(run)):
        margins = _mean_time(times, slow), _mean_time(times, typical)
        parts.append((kind, name, margins, difference(*margins)))
    layers = [part for part in parts if part[0] == "layer"]
    layers.sort(key=lambda part: -(part[3].value or 0.0))
    whole_excess = parts[0][3].value
    return [
        {
            **run_cells(run.row),
            "kind": kind,
            "part": name,
            "queries": frame.height,
            "slow_queries": count,
            "typical_queries": high - low,
            **margins[0].cells("slow"),
            **margins[1].cells("typical"),
            **excess.cells("excess"),
            "share": share(excess.value, whole_excess),
        }
        for kind, name, margins, excess in (
            *(part for part in parts if part[0] != "layer"),
            *layers[:MOST_LAYERS],
        )
    ]


def _mean_time(times: pl.DataFrame, queries: pl.Series) -> Margin:
    """Return the mean time (query, ns) over these queries; a query without it counts 0."""
    joined = queries.to_frame("query").join(times, on="query", how="left")
    return mean_margin(joined["ns"].fill_null(0).to_numpy())


def parts_of(run: Run) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Yield waiting, operators and layers: kind, name, and the time (query, ns) of each query."""
    frame = run.answered
    overlaps = has_overlapping_stages(run)
    due = pl.col("due_ns").fill_null(pl.col("issued_ns"))
    yield "wait", _LATE, frame.select("query", (pl.col("issued_ns") - due).alias("ns"))
    if overlaps:
        yield from _stage_parts(run)
    else:
        begun = (pl.col("started_ns") - pl.col("issued_ns")).alias("ns")
        yield "wait", "waiting to begin", frame.select("query", begun)
    levels = (("operator", OPERATOR_LEVEL), ("layer", LAYER_LEVEL))
    for kind, level in levels[1:] if overlaps else levels:
        spans = (
            run.spans_at(level)
            .group_by("name", "query", maintain_order=True)
            .agg(ns=pl.col("duration_ns").sum())
        )
        for (name,), part in spans.sort("name", "query").group_by("name", maintain_order=True):
            yield kind, str(name), part.select("query", "ns")
    operators = (
        run.spans_at(OPERATOR_LEVEL)
        .group_by("query", maintain_order=True)
        .agg(ns=pl.col("duration_ns").sum())
    )
    if operators.height and not overlaps:
        served = (pl.col("ended_ns") - pl.col("started_ns")).alias("served")
        both = frame.select("query", served).join(operators, on="query")
        outside = both.select("query", ns=pl.col("served") - pl.col("ns"))
        yield "operator", _OUTSIDE, outside


def _stage_parts(run: Run) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Yield each stage of overlapping queries and the wait before it, as `parts_of` does.

    Operators of such a query ran side by side: only the stages' ends add up to the query.
    """
    times = stage_times(run)
    for stage in STAGES:
        of_stage = times.filter(pl.col("stage") == stage)
        if of_stage.height:
            yield "wait", f"{_WAITING}{stage}", of_stage.select("query", ns="waited_ns")
            yield "stage", stage, of_stage.select("query", ns="spent_ns")


ANALYSIS = Analysis(
    name="tail",
    title="Why the slow queries are slow",
    source=(
        f"The slowest {SLOWEST:.0%} of a run's queries, at least one, compared with those between "
        "the 40th and 60th percentile of latency: mean time in each part, and its share of the "
        "difference. Only the five layers with the largest difference are shown. Intervals are "
        "those of the mean over queries, by Student's t; one slow query has none."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column(
            "kind",
            "Kind of part: query, wait, operator or layer, or stage of overlapping queries; "
            "operators and stages contain layers.",
        ),
        text_column("part", "Name of the part of a query."),
        int_column("queries", "Queries answered."),
        int_column("slow_queries", "Slow queries among them."),
        int_column("typical_queries", "Typical queries among them."),
        *estimate_columns("slow", "Mean time in slow queries."),
        *estimate_columns("typical", "Mean time in typical queries."),
        *estimate_columns(
            "excess", "Slow minus typical; negative where slow queries spend less in the part."
        ),
        float_column(
            "share",
            "Share of the excess of the whole query; over 1 where other parts take less.",
            "1",
        ),
    ),
    compute=tail,
    chart=bars(("part", "Part"), Axis("excess", "Slow minus typical", "ns"), "share", color="kind"),
)
