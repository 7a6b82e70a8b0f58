"""NVTX's ranges and marks in an export of Nsight Systems: which are queries, which users' own.

Outermost ranges of a thread are queries, those in them operators, deeper ones layers; without any
the whole trace is one query. Where there are pushed ranges of the default domain, those of other
domains (libraries', applications') make no queries: outside of them they are users' own spans.
Ranges that were started and ended, maybe by two threads, overlap as they like: beside others they
are users' own spans, as marks are.
"""

import polars as pl

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.foreign.nested import by_depth
from services.agent.foreign.nsys_tables import NVTX, Report, named, thread, timed
from services.agent.foreign.recording import filled, rooted

MARK, PUSHED, STARTED, DOMAIN = 34, 59, 60, 75
"""Of NVTX_EVENTS.eventType (ENUM_NSYS_EVENT_TYPE); versions that lack it have ranges alone."""


def ranges_of(report: Report) -> tuple[pl.DataFrame, int]:
    """Return NVTX's ranges and marks, and how many ranges were open when the trace was over.

    Each has name, times, thread, `type`, `is_default` (of the default domain, which has no name),
    and its domain in attributes. Open ranges have no end, or one that is the trace's.
    """
    rows = report.tables[NVTX].with_columns(pl.col("eventType").fill_null(PUSHED).alias("type"))
    name = pl.coalesce("text", named(report, "textId"), pl.lit("range"))
    rows = rows.with_columns(name.alias("name"))
    domains = rows.filter(pl.col("type") == DOMAIN).select("domainId", domain="name")
    marks = rows.filter(pl.col("type") == MARK).with_columns(pl.col("start").alias("end"))
    ranges = rows.filter(pl.col("type").is_in([PUSHED, STARTED]))
    ended = ranges.filter(pl.col("end").is_not_null() & ~pl.col("end").is_in(report.open_ends))
    told = timed(pl.concat([ended, marks])).join(
        domains.unique("domainId"), on="domainId", how="left"
    )
    said = pl.struct("domain").struct.json_encode()
    found = told.select(
        "name",
        "start_ns",
        "duration_ns",
        thread(),
        "type",
        (pl.col("domainId").fill_null(0) == 0).alias("is_default"),
        pl.when(pl.col("domain").is_not_null()).then(said).alias("attributes"),
    )
    return found, ranges.height - ended.height


def with_queries(
    parts: list[pl.DataFrame], ranges: pl.DataFrame
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return all spans with their queries, by start, and what a reader must know of those."""
    notes: tuple[str, ...] = ()
    nesting, others = _divided(ranges)
    if nesting.height:
        hosts = by_depth(nesting)
    else:
        both = pl.concat(part.select("start_ns", "duration_ns") for part in [*parts, others])
        begin = both["start_ns"].min()
        end = (both["start_ns"] + both["duration_ns"]).max()
        whole = pl.DataFrame({"start_ns": [begin], "duration_ns": [end - begin], "thread": [0]})  # type: ignore[operator]
        hosts = filled(rooted(whole, pl.lit("trace")))
        notes = ("the trace has no NVTX range: all of it is one query",)
    is_mark = pl.col("type") == MARK
    users = others.with_columns(
        pl.when(is_mark).then(int(SpanKind.MARKER)).otherwise(int(SpanKind.HOST)).alias("kind"),
        pl.lit(int(Level.APPLICATION)).alias("level"),
    )
    spans = pl.concat([hosts, filled(users), *(filled(part) for part in parts)]).drop("span")
    return filled(spans.sort("start_ns", "level", maintain_order=True)), notes


def _divided(ranges: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the ranges that make queries and what is in them, and all others and marks."""
    numbered = ranges.with_row_index("range")
    nesting = numbered.filter(pl.col("type") == PUSHED)
    if not nesting.height:
        nesting = numbered.filter(pl.col("type") == STARTED)
    nesting = _in_queries(nesting)
    others = numbered.join(nesting, on="range", how="anti").drop("range")
    return nesting.drop("range", "type", "is_default"), others


def _in_queries(nesting: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges of the default domain and those that lie in one; all where it has none."""
    end = pl.col("start_ns") + pl.col("duration_ns")
    ours = nesting.filter("is_default").sort("start_ns")
    if not ours.height:
        return nesting
    # Of the ranges begun so far the one that reaches farthest holds whatever any of them holds.
    reaches = ours.select("thread", "start_ns", reach=end.cum_max().over("thread"))
    rest = nesting.filter(~pl.col("is_default")).sort("start_ns")
    placed = rest.join_asof(
        reaches, on="start_ns", by="thread", strategy="backward", check_sortedness=False
    )
    inside = placed.filter(pl.col("reach") >= end).drop("reach")
    return pl.concat([ours, inside]).sort("range")
