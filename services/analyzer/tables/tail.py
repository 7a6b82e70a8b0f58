"""Tail: why the slow queries are slow, part by part against the queries around the median."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from schemas.analysis import Table
from services.analyzer.frames import LAYER_LEVEL, OPERATOR_LEVEL, Frames, Run
from services.analyzer.tables.charts import bars
from services.analyzer.tables.margins import Margin, difference, mean_margin
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    doubts,
    estimate,
    in_percent,
    in_time,
    made,
    real,
    run_cells,
    share,
    text,
    whole,
)

SLOWEST = 0.01
TYPICAL = (0.4, 0.6)
LEAST_QUERIES = 20
"""Below this many a run has no tail to speak of."""
MOST_LAYERS = 5


def tail(frames: Frames) -> Table:
    """Return a row a part of a query: its time in slow queries less that in typical ones."""
    rows = [row for run in frames.measured for row in _rows(run)]
    verdict = f"No run has {LEAST_QUERIES} queries: there is no tail to explain."
    if rows:
        whole_ = rows[0]
        mine = [r for r in rows if r["run"] == whole_["run"] and r["kind"] in ("wait", "operator")]
        verdict = f"{_slowest(whole_)} {in_time(whole_['excess'])} more than typical ones"
        verdict += f"{_where(whole_, mine)}."
    return made(ANALYSIS, rows, verdict, doubts(frames))


def _where(whole_: dict[str, Any], parts: list[dict[str, Any]]) -> str:
    """Return the part that has most of the difference, and how much no part has if that is more."""
    if whole_["excess"] <= 0:
        return ""
    top = max(parts, key=lambda row: row["excess"])
    told = f", {in_percent(top['share'])} of it in {top['part']}" if top["excess"] > 0 else ""
    rest = 1.0 - sum(row["share"] for row in parts)
    if rest > max(top["share"], 0.0):
        told += f"; {in_percent(rest)} lies in nothing that was traced"
    return told


def _slowest(whole_: dict[str, Any]) -> str:
    count, run = whole_["slow_queries"], whole_["run"]
    if count == 1:
        return f"The slowest query of {run} takes"
    return f"The slowest {count} queries of {run} take on average"


def _rows(run: Run) -> list[dict[str, Any]]:
    frame = run.answered.with_columns(pl.Series("latency", run.latency_ns))
    if frame.height < LEAST_QUERIES:
        return []
    rising = frame.sort("latency", "query")
    count = max(round(SLOWEST * frame.height), 1)
    low, high = (int(each * frame.height) for each in TYPICAL)
    groups = rising.tail(count)["query"], rising[low:high]["query"]
    whole_ = _sides(frame.select("query", ns="latency"), groups)
    parts = [("query", "query", whole_), *((k, n, _sides(f, groups)) for k, n, f in _parts(run))]
    layers = sorted((p for p in parts if p[0] == "layer"), key=lambda part: -_less(part[2]))
    kept = [p for p in parts if p[0] != "layer"] + layers[:MOST_LAYERS]
    return [
        {
            **run_cells(run.row),
            "kind": kind,
            "part": name,
            "queries": frame.height,
            "slow_queries": count,
            "typical_queries": high - low,
            **slow.cells("slow"),
            **typical.cells("typical"),
            **difference(slow, typical).cells("excess"),
            "share": share(_less((slow, typical)), _less(whole_)),
        }
        for kind, name, (slow, typical) in kept
    ]


_Sides = tuple[Margin, Margin]
"""A part's mean time in slow and in typical queries."""


def _less(sides: _Sides) -> float:
    return (sides[0].value or 0.0) - (sides[1].value or 0.0)


def _sides(part: pl.DataFrame, groups: tuple[pl.Series, pl.Series]) -> _Sides:
    """Return mean times of a part (query, ns) in each group; a query without it spent 0 in it."""
    slow, typical = (
        group.to_frame("query").join(part, on="query", how="left")["ns"].fill_null(0).to_numpy()
        for group in groups
    )
    return mean_margin(slow), mean_margin(typical)


def _parts(run: Run) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Yield waiting, operators and layers: kind, name, and the time of each query in it."""
    frame = run.answered
    due = pl.col("due_ns").fill_null(pl.col("issued_ns"))
    yield "wait", "issued late", frame.select("query", (pl.col("issued_ns") - due).alias("ns"))
    begun = (pl.col("started_ns") - pl.col("issued_ns")).alias("ns")
    yield "wait", "waiting to begin", frame.select("query", begun)
    for kind, level in (("operator", OPERATOR_LEVEL), ("layer", LAYER_LEVEL)):
        spans = run.spans_at(level).group_by("name", "query").agg(ns=pl.col("duration_ns").sum())
        for (name,), part in spans.sort("name", "query").group_by("name", maintain_order=True):
            yield kind, str(name), part
    operators = run.spans_at(OPERATOR_LEVEL).group_by("query").agg(ns=pl.col("duration_ns").sum())
    if operators.height:
        served = (pl.col("ended_ns") - pl.col("started_ns")).alias("served")
        rest = frame.select("query", served).join(operators, on="query")
        yield (
            "operator",
            "outside operators",
            rest.select("query", ns=pl.col("served") - pl.col("ns")),
        )


ANALYSIS = Analysis(
    name="tail",
    title="Why the slow queries are slow",
    source=(
        f"The slowest {SLOWEST:.0%} of a run's queries, at least one, against those between the "
        "40th and 60th percentile of latency: mean time in each part, and which part has the "
        "difference. Layers: the five with most. Intervals are of the mean over queries "
        "like these, by Student's t; one slow query has none."
    ),
    columns=(
        *RUN_COLUMNS,
        text("kind", "query, wait, operator or layer; operators hold the layers."),
        text("part", "What of a query it is."),
        whole("queries", "Queries answered."),
        whole("slow_queries", "Slow ones among them."),
        whole("typical_queries", "Typical ones among them."),
        *estimate("slow", "Mean time in slow queries."),
        *estimate("typical", "Mean time in typical queries."),
        *estimate("excess", "Slow less typical; negative where slow ones spend less in it."),
        real("share", "Share of what slow queries take more.", "1"),
    ),
    compute=tail,
    chart=bars(("part", "Part"), ("excess", "Slow less typical (ns)"), "kind", "share"),
)
