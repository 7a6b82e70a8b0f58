"""NVTX ranges and marks in an export of Nsight Systems: queries, operators, layers, user spans.

Outermost ranges of a thread are queries, those within them operators, deeper ones layers; without
any range the whole trace is one query. Where the default domain has pushed ranges, ranges of other
domains (of libraries or applications) are no queries: outside the default domain's ranges they are
user spans. Ranges that were started and ended, possibly by two threads, may overlap: where there
are pushed ranges too, they are user spans, as are marks.
"""

import polars as pl

from mlscope.importing.nesting import leveled_by_depth
from mlscope.importing.nsys.tables import NVTX, Report, named, thread, timed
from mlscope.importing.recording import merged, query_spans
from schemas.batch import SpanKind
from schemas.level import Level

MARK, PUSHED, STARTED, DOMAIN = 34, 59, 60, 75
"""Of NVTX_EVENTS.eventType (ENUM_NSYS_EVENT_TYPE); versions without it have only ranges."""


def ranges_of(report: Report) -> tuple[pl.DataFrame, int]:
    """Return NVTX ranges and marks, and how many ranges were open when the trace ended.

    Each row has name, start_ns, duration_ns, thread, `type`, `is_default` (whether it is of the
    default domain, which has no name), and its domain in attributes. Open ranges have no end, or
    the end of the trace.
    """
    rows = report.tables[NVTX].with_columns(pl.col("eventType").fill_null(PUSHED).alias("type"))
    name = pl.coalesce("text", named(report, "textId"), pl.lit("range"))
    rows = rows.with_columns(name.alias("name"))
    domains = rows.filter(pl.col("type") == DOMAIN).select("domainId", domain="name")
    marks = rows.filter(pl.col("type") == MARK).with_columns(pl.col("start").alias("end"))
    ranges = rows.filter(pl.col("type").is_in([PUSHED, STARTED]))
    ended = ranges.filter(pl.col("end").is_not_null() & ~pl.col("end").is_in(report.open_ends))
    events = timed(pl.concat([ended, marks])).join(
        domains.unique("domainId"), on="domainId", how="left"
    )
    domain = pl.struct("domain").struct.json_encode()
    columns = events.select(
        "name",
        "start_ns",
        "duration_ns",
        thread(),
        "type",
        (pl.col("domainId").fill_null(0) == 0).alias("is_default"),
        pl.when(pl.col("domain").is_not_null()).then(domain).alias("attributes"),
    )
    return columns, ranges.height - ended.height


def with_queries(
    parts: list[pl.DataFrame], ranges: pl.DataFrame
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return all spans with their queries, by start, and caveats about the queries.

    `parts`: spans of calls and device work. `ranges`: as `ranges_of` returns them.
    """
    notes: tuple[str, ...] = ()
    numbered = ranges.with_row_index("range")
    nesting = numbered.filter(pl.col("type") == PUSHED)
    if not nesting.height:
        nesting = numbered.filter(pl.col("type") == STARTED)
    nesting = _within_default_domain(nesting)
    user_ranges = numbered.join(nesting, on="range", how="anti").drop("range")
    if nesting.height:
        queries = leveled_by_depth(nesting.drop("range", "type", "is_default"))
    else:
        times = pl.concat(part.select("start_ns", "duration_ns") for part in [*parts, user_ranges])
        end = (pl.col("start_ns") + pl.col("duration_ns")).max()
        trace = times.select(
            pl.col("start_ns").min(),
            (end - pl.col("start_ns").min()).alias("duration_ns"),
            pl.lit(0).alias("thread"),
        )
        queries = query_spans(trace, pl.lit("trace"))
        notes = ("the trace has no NVTX range: all of it is one query",)
    is_mark = pl.col("type") == MARK
    user_spans = user_ranges.with_columns(
        pl.when(is_mark).then(int(SpanKind.MARKER)).otherwise(int(SpanKind.HOST)).alias("kind"),
        pl.lit(int(Level.APPLICATION)).alias("level"),
    )
    return merged([queries, user_spans, *parts]), notes


def _within_default_domain(ranges: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges of the default domain and those inside them; all where it has none."""
    end = pl.col("start_ns") + pl.col("duration_ns")
    default = ranges.filter("is_default").sort("start_ns")
    if not default.height:
        return ranges
    # Of the ranges begun so far, the one that ends last contains whatever any of them contains.
    latest_ends = default.select("thread", "start_ns", latest_end=end.cum_max().over("thread"))
    named_domains = ranges.filter(~pl.col("is_default")).sort("start_ns")
    matched = named_domains.join_asof(
        latest_ends, on="start_ns", by="thread", strategy="backward", check_sortedness=False
    )
    inside = matched.filter(pl.col("latest_end") >= end).drop("latest_end")
    return pl.concat([default, inside]).sort("range")
