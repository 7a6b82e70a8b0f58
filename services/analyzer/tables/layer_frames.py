"""A run's layers as frames: their time by query, and one row each with its statistics."""

import polars as pl

from mlscope.statistics import trimmed_mean
from services.analyzer.derived import once
from services.analyzer.frames import LAYER_LEVEL, PREDICT, Run
from services.analyzer.grouped import trimmed

NO_LAYERS = "No run at level framework has layers."

_NATURE = ("type", "shape", "provider", "original", "memory_kind")
_AMOUNTS = ("memory_bytes", "flops", "bytes_read", "bytes_written")


def layer_times(run: Run) -> pl.DataFrame:
    """Return time by layer and query: place, node, name, query, time_ns, spans and the nature.

    A layer is one index (`node`) and name: layers of the same name stay apart, those without an
    index by which of them in their query they are. `place` is the order in which they first began.
    """
    return once(run, _layer_times)


def _layer_times(run: Run) -> pl.DataFrame:
    key = ["node", "name", "ordinal"]
    spans = _ordered(run.spans_at(LAYER_LEVEL))
    order = spans.sort("start_ns").unique(key, keep="first", maintain_order=True)
    places = order.select(key).with_row_index("place")
    summed = spans.group_by(*key, "query", maintain_order=True).agg(
        pl.col("duration_ns").sum().alias("time_ns"), pl.len().alias("spans")
    )
    return (
        summed.join(places, on=key)
        .join(_natures(run), on=["node", "name"], how="left", maintain_order="left")
        .sort("place", "query")
    )


def _ordered(spans: pl.DataFrame) -> pl.DataFrame:
    """Add `node`, and `ordinal`: which of its name in its query a span without index is, else 0."""
    if spans["layer"].null_count() == 0:
        return spans.with_columns(
            pl.lit(0, pl.UInt32).alias("ordinal"), pl.col("layer").alias("node")
        )
    nth = pl.int_range(pl.len(), dtype=pl.UInt32).over("query", "name", order_by="start_ns")
    return spans.with_columns(
        pl.when(pl.col("layer").is_null()).then(nth).otherwise(0).alias("ordinal"),
        pl.col("layer").fill_null(-1).alias("node"),
    )


def _natures(run: Run) -> pl.DataFrame:
    """Return what the framework said of layers: node, name and the nature, one row a layer."""
    return (
        run.layers.with_columns(pl.col("layer").fill_null(-1).alias("node"))
        .select("node", "name", *_NATURE, *_AMOUNTS)
        .unique(["node", "name"], keep="first", maintain_order=True)
    )


def layers_of(run: Run) -> pl.DataFrame:
    """Return a row a layer in execution order; one that no query ran comes last, with 0 queries.

    place, node, name, its nature, queries, spans; `time`, `time_low`, `time_high`: trimmed mean of
    its time a query; min, q1, median, q3, max of it. All times in ns.
    """
    return once(run, _layers_of)


def _layers_of(run: Run) -> pl.DataFrame:
    times = layer_times(run)
    time = trimmed(times, ["place"], "time_ns").rename(
        {"n": "queries", "mid": "time", "low": "time_low", "high": "time_high"}
    )
    ns = pl.col("time_ns")
    spread = times.group_by("place").agg(
        pl.col("spans").sum(),
        ns.min().cast(pl.Float64).alias("min"),
        ns.quantile(0.25, "linear").alias("q1"),
        ns.median().alias("median"),
        ns.quantile(0.75, "linear").alias("q3"),
        ns.max().cast(pl.Float64).alias("max"),
    )
    first = times.select("place", "node", "name", *_NATURE, *_AMOUNTS)
    ran = (
        first.unique("place", keep="first", maintain_order=True)
        .join(time, on="place", maintain_order="left")
        .join(spread, on="place", maintain_order="left")
    )
    never = _natures(run).join(ran, on=["node", "name"], how="anti")
    idle = never.sort("node").with_columns(
        pl.int_range(ran.height, ran.height + pl.len()).cast(pl.UInt32).alias("place"),
        pl.lit(0, pl.Int64).alias("queries"),
        pl.lit(0, pl.UInt32).alias("spans"),
    )
    both = pl.concat([ran, idle], how="diagonal")
    return both.with_columns(pl.col("type", "shape", "provider", "original").fill_null(""))


def predict_ns(run: Run) -> float | None:
    """Return the trimmed mean of predict a query, in the same run."""
    return once(run, _predict_ns)


def _predict_ns(run: Run) -> float | None:
    values = run.operator_ns(PREDICT)
    return trimmed_mean(values) if len(values) else None
