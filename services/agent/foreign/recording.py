"""What a foreign file holds, in our words."""

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
"""As in `schemas.batch`: `parent` and `attributes` (JSON) null, `query`, `correlation` -1 unknown.

Starts count from the recording's origin.
"""

ROOT, PREDICT = "query", "predict"

EARLIEST_NS, LATEST_NS, LONGEST_NS = -(1 << 60), 1 << 62, 1 << 61
"""Times of spans, from 1933 to 2116 where they count from 1970: sums of any three fit 64 bits."""
_THREADS = 1 << 31
"""More than a column of threads holds: ids above (macOS's, streams') are folded."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One run as another tool saw it."""

    #: the tool's name: kineto, onnxruntime, ncu, nsys, chrome, mlscope
    tool: str
    spans: pl.DataFrame
    framework: str = ""
    host: str = "imported"
    device: str = "cpu"
    accelerator: str = ""
    #: the origin in epoch ns, 0 where the file does not say
    epoch_ns: int = 0
    #: what a reader must know: what was left out, what was made up
    notes: tuple[str, ...] = field(default=())

    @property
    def level(self) -> Level:
        """The deepest level there is."""
        return Level(int(self.spans["level"].max() or 0))  # type: ignore[arg-type]

    @property
    def roots(self) -> pl.DataFrame:
        """The spans of whole queries, in order."""
        is_root = (pl.col("level") == int(Level.APPLICATION)) & (pl.col("query") >= 0)
        return self.spans.filter(is_root).unique("query", keep="first").sort("query")


def filled(spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans with every column: what is missing has its default, ids are numbers from 1."""
    defaults: Mapping[str, int | None] = {
        "parent": None,
        "thread": 0,
        "query": -1,
        "block": 0,
        "kind": int(SpanKind.HOST),
        "correlation": -1,
        "attributes": None,
    }
    absent = [pl.lit(v).alias(name) for name, v in defaults.items() if name not in spans.columns]
    numbered = spans.with_columns(*absent)
    if "span" not in spans.columns:
        numbered = numbered.with_columns(pl.int_range(1, pl.len() + 1).alias("span"))
    if numbered.schema["thread"] != pl.Int32:
        own = pl.col("thread").cast(pl.Int64)
        fits = own.is_between(-_THREADS, _THREADS - 1)
        numbered = numbered.with_columns(
            pl.when(fits).then(own).otherwise(own % _THREADS).alias("thread")
        )
    return numbered.select(pl.col(name).cast(kind) for name, kind in SPAN_SCHEMA.items())


def rooted(queries: pl.DataFrame, original: pl.Expr) -> pl.DataFrame:
    """Return the spans of queries (start_ns, duration_ns, thread): a root, and predict in it.

    Foreign files have no pipeline around the model: all of a query is predict, and both say what
    the file calls it.
    """
    numbered = queries.sort("start_ns", maintain_order=True).with_row_index("query")
    noted = numbered.with_columns(
        pl.struct(original.alias("original")).struct.json_encode().alias("attributes")
    )
    return pl.concat(
        noted.with_columns(
            pl.lit(name).alias("name"), pl.lit(int(level)).cast(pl.Int64).alias("level")
        )
        for name, level in ((ROOT, Level.APPLICATION), (PREDICT, Level.MODEL))
    )
