"""Byte strings of big-endian integers, as the database aggregates a column, to Polars frames.

`string_agg(int8send(x), '')` was the fastest way to read spans of those measured (500,000 rows, 8
columns, PostgreSQL 18, 2 cores, million rows a second): 1.9-2.5; ADBC 0.9-1.7; `array_agg` 0.7;
rows through psycopg 0.8; binary COPY, a message a row, 0.4.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from mlscope.tracing.copy_kinds import COPY_KINDS
from services.analyzer.frames.devices import DEVICE_ATTRIBUTE_SCHEMA
from services.analyzer.frames.row_schemas import Schema

_WIRE: dict[type[pl.DataType], str] = {pl.Int16: ">i2", pl.Int32: ">i4", pl.Int64: ">i8"}
_ATTRIBUTE_WIRE: dict[type[pl.DataType], str] = _WIRE | {pl.Float64: ">f8", pl.String: ">i4"}
_NULLABLE = frozenset(
    {"due_ns", "service_ns", "failed", "parent", "layer", "correlation", "device", "stream"}
)


def frame_of(columns: Mapping[str, bytes | None], schema: Schema, run_key: int) -> pl.DataFrame:
    """Return a frame of `schema` from its `columns`, with `run_key` as a constant column.

    A text column (a span's name) is a number until `with_names` looks it up. Without rows every
    column is None. -1 is null in nullable columns.
    """
    series = [
        pl.Series(
            name, np.frombuffer(columns[name] or b"", _WIRE.get(kind, ">i4")).astype(np.int64)
        )
        for name, kind in schema.items()
        if name != "run_key"
    ]
    frame = pl.DataFrame(series).with_columns(pl.lit(run_key, pl.Int64).alias("run_key"))
    casts = [
        pl.col(name).replace(-1, None).cast(kind) if name in _NULLABLE else pl.col(name).cast(kind)
        for name, kind in schema.items()
        if kind in _WIRE
    ]
    return frame.with_columns(casts).select(*schema)


def device_attributes_of(columns: Mapping[str, bytes | None]) -> pl.DataFrame:
    """Return what sources report of device spans (devices.DEVICE_ATTRIBUTE_SCHEMA).

    -1 and NaN are null; `copy_kind` is its place in COPY_KINDS.
    """
    series = [
        pl.Series(name, np.frombuffer(columns[name] or b"", _ATTRIBUTE_WIRE[kind]), strict=False)
        for name, kind in DEVICE_ATTRIBUTE_SCHEMA.items()
    ]
    return pl.DataFrame(series).with_columns(
        pl.col("graph_node").replace(-1, None),
        pl.col(pl.Float64).fill_nan(None),
        pl.col("copy_kind").replace_strict(
            dict(enumerate(COPY_KINDS)), default=None, return_dtype=pl.String
        ),
    )


def with_names(spans: pl.DataFrame, names: Mapping[int, str]) -> pl.DataFrame:
    """Return spans with their names as texts; an unknown number n becomes `#n`."""
    texts = pl.DataFrame(
        {"name": list(names), "text": list(names.values())},
        schema={"name": pl.Int64, "text": pl.String},
    )
    joined = spans.join(texts, on="name", how="left", maintain_order="left")
    text = pl.col("text").fill_null(pl.format("#{}", pl.col("name")))
    return joined.with_columns(text.alias("name")).drop("text")
