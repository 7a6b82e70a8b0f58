"""What a file of another tool holds, as spans of this project. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import polars as pl

from schemas.batch import SpanKind
from schemas.level import Level

SPAN_SCHEMA: Mapping[str, type[pl.DataType]] = MappingProxyType(
    {
        "span": pl.Int64,
        "parent": pl.Int64,
        "level": pl.Int8,
        "name": pl.String,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "thread": pl.Int32,
        "query": pl.Int32,
        "block": pl.Int16,
        "kind": pl.Int8,
        "correlation": pl.Int64,
        "attributes": pl.String,
    }
)
"""Columns as in `schemas.batch`.

`parent` and `attributes` (JSON) are null where unknown; `query` and `correlation` are -1. Starts
count from the recording's origin.
"""

ROOT, PREDICT = "query", "predict"

MIN_START_NS, MAX_START_NS, MAX_DURATION_NS = -(1 << 60), 1 << 62, 1 << 61
"""Times of spans, from 1933 to 2116 where they count from 1970: sums of any three fit 64 bits."""
_THREADS = 1 << 31
"""Thread ids from here on (macOS's, streams') do not fit the column and are folded into it."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One run as another tool recorded it."""

    #: the tool's name: kineto, onnxruntime, ncu, nsys, chrome, mlscope
    tool: str
    spans: pl.DataFrame
    framework: str = ""
    host: str = "imported"
    device: str = "cpu"
    accelerator: str = ""
    #: the origin in epoch ns, 0 where the file does not say
    epoch_ns: int = 0
    #: caveats: what was left out, what was assumed
    notes: tuple[str, ...] = field(default=())

    @property
    def level(self) -> Level:
        """The deepest level of its spans."""
        return Level(int(self.spans["level"].max() or 0))  # type: ignore[arg-type]

    @property
    def roots(self) -> pl.DataFrame:
        """The root span of each query, in order."""
        is_root = (pl.col("level") == int(Level.APPLICATION)) & (pl.col("query") >= 0)
        return self.spans.filter(is_root).unique("query", keep="first").sort("query")


def with_all_columns(spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans with every column of SPAN_SCHEMA.

    Missing columns get their defaults, and missing ids are numbers from 1.
    """
    defaults: Mapping[str, int | None] = {
        "parent": None,
        "thread": 0,
        "query": -1,
        "block": 0,
        "kind": int(SpanKind.HOST),
        "correlation": -1,
        "attributes": None,
    }
    missing = [
        pl.lit(value).alias(name) for name, value in defaults.items() if name not in spans.columns
    ]
    complete = spans.with_columns(*missing)
    if "span" not in spans.columns:
        complete = complete.with_columns(pl.int_range(1, pl.len() + 1).alias("span"))
    if complete.schema["thread"] != pl.Int32:
        thread = pl.col("thread").cast(pl.Int64)
        fits = thread.is_between(-_THREADS, _THREADS - 1)
        complete = complete.with_columns(
            pl.when(fits).then(thread).otherwise(thread % _THREADS).alias("thread")
        )
    return complete.select(pl.col(name).cast(kind) for name, kind in SPAN_SCHEMA.items())


def merged(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the spans of all parts by start, numbered from 1."""
    spans = pl.concat([with_all_columns(part) for part in parts]).drop("span")
    return with_all_columns(spans.sort("start_ns", "level", maintain_order=True))


def api_calls(calls: pl.DataFrame, started: pl.Series) -> pl.DataFrame:
    """Return API calls as spans; those whose names or `started` work say so are launches.

    `calls`: name, start_ns, duration_ns, thread, correlation. `started`: the correlations of work
    on devices. Correlations of 0 and less are none.
    """
    has_work = pl.col("correlation").is_in(started.unique().implode())
    is_launch = pl.col("name").str.contains("Launch") | (has_work & (pl.col("correlation") > 0))
    kind = pl.when(is_launch).then(int(SpanKind.LAUNCH)).otherwise(int(SpanKind.HOST))
    return calls.select(
        "name",
        "start_ns",
        "duration_ns",
        "thread",
        "correlation",
        kind.alias("kind"),
        pl.lit(int(Level.SYSTEM)).alias("level"),
    )


def query_spans(queries: pl.DataFrame, original: pl.Expr) -> pl.DataFrame:
    """Return the spans of queries: a root span and a predict span for each.

    Other tools record no pipeline around the model, so all of a query is its predict step.
    `queries`: start_ns, duration_ns, thread. `original`: the name that the file has for a query,
    an attribute of both spans.
    """
    numbered = queries.sort("start_ns", maintain_order=True).with_row_index("query")
    described = numbered.with_columns(
        pl.struct(original.alias("original")).struct.json_encode().alias("attributes")
    )
    return pl.concat(
        described.with_columns(
            pl.lit(name).alias("name"), pl.lit(int(level)).cast(pl.Int64).alias("level")
        )
        for name, level in ((ROOT, Level.APPLICATION), (PREDICT, Level.MODEL))
    )


def time_columns(*columns: tuple[str, str]) -> list[pl.Expr]:
    """Return columns of microseconds as whole ns, null as 0; each pair is old and new name."""
    return [
        (pl.col(microseconds) * 1000).round().cast(pl.Int64).fill_null(0).alias(name)
        for microseconds, name in columns
    ]
