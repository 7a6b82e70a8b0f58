"""The columns of an evaluation's rows as Polars frames: names and types.

Times are nanoseconds, counted from the origin of the attempt; null is absent.
"""

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl

Schema = Mapping[str, type[pl.DataType]]

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
"""`failed`: samples without an answer, of a query answered in part; else null."""
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

`kind` is a SpanKind; `correlation` joins a launch with what it started, null without; `device`
and `stream` are where work of a device ran, null for the host's.
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

Of one call: `memory_bytes` that it allocated (`memory_kind` measured) or that its outputs take
(outputs), `flops` (2 a multiply-add), `bytes_read` and `bytes_written`; null where unknown.
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
"""Equal errors of queries, whole or in part, together: how many, the `first` numbers as text."""


COUNTER_SCHEMA: Schema = MappingProxyType(
    {"span": pl.Int64, "metric": pl.String, "value": pl.Float64}
)
"""A row a kernel and metric that a profiler was asked for beside those with columns of their own
(`devices.COUNTERS`), in the metric's base unit.
"""
MOST_COUNTERS = 1_000_000
"""Rows of COUNTER_SCHEMA that are read of a run."""

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
"""A row a value of a sampled series: spans of the kind SAMPLE.

`counted_share`: of a counter that took turns with others the share of the time that it counted,
its value is scaled by it; else null.
"""
