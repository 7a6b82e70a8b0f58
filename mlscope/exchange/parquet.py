"""Spans as a Parquet file: one row per span, the run in its metadata. Needs polars."""

from typing import IO

import polars as pl

from mlscope.exchange.traces import Trace

SCHEMA = {
    "span": pl.Int64,
    "parent": pl.Int64,
    "layer": pl.Int64,
    "level": pl.Int16,
    "name": pl.String,
    "start_ns": pl.Int64,
    "duration_ns": pl.Int64,
    "thread": pl.Int32,
    "query": pl.Int32,
    "block": pl.Int16,
    "kind": pl.Int16,
    "correlation": pl.Int64,
    "method": pl.String,
    "attributes": pl.String,
}


def write(trace: Trace, file: IO[bytes]) -> None:
    """Write one run."""
    frame = pl.DataFrame(trace.spans, schema=SCHEMA, orient="row")
    metadata = {"evaluation": trace.evaluation, "run": trace.run.model_dump_json()}
    frame.write_parquet(file, metadata=metadata)
