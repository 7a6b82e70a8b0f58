"""The columns of an evaluation's rows as Polars frames: names and types.

Times are nanoseconds, counted from the origin of the attempt; null is absent.
"""

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl

Schema = Mapping[str, type[pl.DataType]]


def empty_frame(schema: Schema) -> pl.DataFrame:
    """Return a frame of `schema` without rows."""
    return pl.DataFrame(schema=dict(schema))


QUERY_SCHEMA: Schema = MappingProxyType(
    {
        "run_key": pl.Int64,
        "query": pl.Int32,
        "block": pl.Int16,
        "size": pl.Int32,
        "due_ns": pl.Int64,
        "issued_ns": pl.Int64,
        "started_ns": pl.Int64,
        "ended_ns": pl.Int64,
        "service_ns": pl.Int64,
        "status": pl.Int16,
        "failed": pl.Int32,
    }
)
"""`failed`: number of samples without an answer in a partly answered query; else null."""
SPAN_SCHEMA: Schema = MappingProxyType(
    {
        "run_key": pl.Int64,
        "span": pl.Int64,
        "parent": pl.Int64,
        "level": pl.Int16,
        "name": pl.String,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "thread": pl.Int32,
        "query": pl.Int32,
        "block": pl.Int16,
        "layer": pl.Int32,
        "kind": pl.Int16,
        "correlation": pl.Int64,
        "device": pl.Int32,
        "stream": pl.Int32,
    }
)
"""`layer` is a layer's index in its model; null for other spans.

`kind` is a SpanKind; `correlation` joins a launch with the spans it started, null without one;
`device` and `stream` are those that device work ran on, null on the host.
"""
LAYER_SCHEMA: Schema = MappingProxyType(
    {
        "run_key": pl.Int64,
        "layer": pl.Int32,
        "name": pl.String,
        "type": pl.String,
        "shape": pl.String,
        "provider": pl.String,
        "original": pl.String,
        "memory_bytes": pl.Int64,
        "flops": pl.Int64,
        "bytes_read": pl.Int64,
        "bytes_written": pl.Int64,
        "memory_kind": pl.String,
    }
)
"""`original` is the JSON list of the model's own nodes that a fused layer stands for.

The values are those of one call: `memory_bytes` that it allocated (`memory_kind` measured) or that
its outputs occupy (outputs), `flops` (a multiply-add is 2), `bytes_read` and `bytes_written`; null
where unknown.
"""
OUTPUT_SCHEMA: Schema = MappingProxyType(
    {"run_key": pl.Int64, "query": pl.Int32, "sample": pl.Int32, "features": pl.String}
)
FAILURE_SCHEMA: Schema = MappingProxyType(
    {
        "run_key": pl.Int64,
        "status": pl.Int16,
        "error": pl.String,
        "queries": pl.Int64,
        "first": pl.String,
    }
)
"""Failed or partly failed queries with equal errors: their count, the `first` numbers as text."""


COUNTER_SCHEMA: Schema = MappingProxyType(
    {"span": pl.Int64, "metric": pl.String, "value": pl.Float64}
)
"""A row for each kernel and requested metric, in the metric's base unit; those of
`devices.COUNTERS` have columns of their own instead.
"""
MOST_COUNTERS = 1_000_000
"""The most rows of COUNTER_SCHEMA that are read of a run."""

SERIES_SCHEMA: Schema = MappingProxyType(
    {
        "name": pl.String,
        "at_ns": pl.Int64,
        "block": pl.Int16,
        "device": pl.Int32,
        "value": pl.Float64,
        "unit": pl.String,
        "counted_share": pl.Float64,
    }
)
"""A row for each value of a sampled series: spans of the kind SAMPLE.

`counted_share` is the share of the time in which a multiplexed counter counted; its value is
scaled by it. Null for other series.
"""
