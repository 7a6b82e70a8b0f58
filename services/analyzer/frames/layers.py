"""A run's layers as frames: their time by query, and one row each with its statistics."""

from collections.abc import Iterable, Iterator

import polars as pl

from mlscope.load.scenarios import COLD
from mlscope.statistics import trimmed_mean
from services.analyzer.building.grouped import trimmed
from services.analyzer.building.table import format_time
from services.analyzer.frames.derived import once_a_run
from services.analyzer.frames.evaluation import LAYER_LEVEL, PREDICT, Frames, Run

NO_LAYERS = "No run at level framework has layers."
NOT_ASKED = "No run was traced at level framework, which is needed for layers."
COLD_ALONE = "Layers were traced only in cold starts; they are in cold_layers."

MOST_TRIMMED = 0.1
"""The share of all layers' time that their trimmed means may lack before a caveat reports it."""
_ATTRIBUTES = ("type", "shape", "provider", "original", "memory_kind")
_AMOUNTS = ("memory_bytes", "flops", "bytes_read", "bytes_written")


def no_layers(frames: Frames) -> str:
    """Return why a table of layers is empty: not requested, only cold starts, or not traced."""
    if not any(row.level >= LAYER_LEVEL for row in frames.runs):
        return NOT_ASKED
    is_cold = (run for run in frames.measured if run.row.variant == COLD)
    if any(run.spans_at(LAYER_LEVEL).height for run in is_cold):
        return COLD_ALONE
    return NO_LAYERS


def layer_times(run: Run) -> pl.DataFrame:
    """Return the time of each layer in each query: place, query, time_ns, spans.

    `place` is that of `layers_of`. A layer that did not run in a query, while others did, has 0.
    """
    return _times_and_places(run)[0]


@once_a_run
def _times_and_places(run: Run) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return `layer_times`, and the layer at each place: place, node, name.

    A layer is one index (`node`) and name: layers of the same name stay apart; their order in the
    query distinguishes those without an index. `place` is the order in which they first ran.
    """
    spans = run.spans_at(LAYER_LEVEL).select("query", "start_ns", "duration_ns", "layer", "name")
    # `key` is one number for each layer: numbers group far faster than texts.
    code = pl.col("name").cast(pl.Categorical).to_physical().cast(pl.Int64)
    nth = pl.lit(0, pl.Int64)
    if spans["layer"].null_count():
        order = pl.int_range(pl.len(), dtype=pl.Int64).over("query", "name", order_by="start_ns")
        nth = pl.when(pl.col("layer").is_null()).then(order).otherwise(0)
    spans = spans.with_columns(
        code.alias("code"), nth.alias("nth"), pl.col("layer").fill_null(-1).alias("node")
    )
    codes = int(spans["code"].max() or 0) + 1  # type: ignore[arg-type]
    repeats = int(spans["nth"].max() or 0) + 1  # type: ignore[arg-type]
    node = pl.col("node").cast(pl.Int64) + 1
    key = (node * codes + pl.col("code")) * repeats + pl.col("nth")
    spans = spans.with_columns(key.alias("key"))
    first = spans.group_by("key", maintain_order=True).agg(
        pl.col("start_ns").min(), pl.col("node").first(), pl.col("name").first()
    )
    places = first.sort("start_ns", "key").with_row_index("place")
    ran = (
        spans.select("key", "query", "duration_ns")
        .join(places.select("key", "place"), on="key")
        .group_by("place", "query", maintain_order=True)
        .agg(pl.col("duration_ns").sum().alias("time_ns"), pl.len().alias("spans"))
    )
    pairs = places.select("place").join(
        spans.select("query").unique(maintain_order=True), how="cross"
    )
    times = (
        pairs.join(ran, on=["place", "query"], how="left")
        .with_columns(pl.col("time_ns", "spans").fill_null(0))
        .sort("place", "query")
    )
    return times, places.select("place", "node", "name")


@once_a_run
def layers_of(run: Run) -> pl.DataFrame:
    """Return a row for each layer in execution order; layers that never ran are last, 0 queries.

    The columns are place, node, name, its attributes, queries, spans; `time`, `time_low`,
    `time_high`: the trimmed mean of its time per query; and min, q1, median, q3, max of that time.
    All times are in ns.
    """
    times, places = _times_and_places(run)
    attributes = (
        run.layers.with_columns(pl.col("layer").fill_null(-1).alias("node"))
        .select("node", "name", *_ATTRIBUTES, *_AMOUNTS)
        .unique(["node", "name"], keep="first", maintain_order=True)
    )
    time = trimmed(times, ["place"], "time_ns").rename(
        {"n": "queries", "mid": "time", "low": "time_low", "high": "time_high"}
    )
    spans = times.group_by("place", maintain_order=True).agg(pl.col("spans").sum())
    ran = (
        places.join(attributes, on=["node", "name"], how="left", maintain_order="left")
        .join(time, on="place", maintain_order="left")
        .join(spans, on="place", maintain_order="left")
    )
    never = attributes.join(ran, on=["node", "name"], how="anti")
    idle = never.sort("node").with_columns(
        pl.int_range(ran.height, ran.height + pl.len()).cast(pl.UInt32).alias("place"),
        pl.lit(0, pl.Int64).alias("queries"),
        pl.lit(0, pl.UInt32).alias("spans"),
    )
    both = pl.concat([ran, idle], how="diagonal")
    return both.with_columns(pl.col("type", "shape", "provider", "original").fill_null(""))


def trimmed_delay_notes(runs: Iterable[Run]) -> Iterator[str]:
    """Yield a caveat for each run whose layers' trimmed means add up to far less than their sum.

    A delay that hits a different layer in each query is trimmed off every layer, but is part of
    the time of all layers.
    """
    for run in runs:
        sums = (
            layer_times(run)
            .group_by("query", maintain_order=True)
            .agg(pl.col("time_ns").sum())["time_ns"]
        )
        all_layers_ns = trimmed_mean(sums.to_numpy()) if sums.len() else 0.0
        summed_ns = float(layers_of(run)["time"].sum())
        if summed_ns < (1 - MOST_TRIMMED) * all_layers_ns:
            yield (
                f"{run.row.run}: layers' trimmed means add up to {format_time(summed_ns)}, but all "
                f"layers of a query take {format_time(all_layers_ns)}: delays that hit different "
                "layers are trimmed off each, so layers' shares of predict are too low"
            )


@once_a_run
def predict_ns(run: Run) -> float | None:
    """Return the trimmed mean of the run's predict (ns per query); None without one."""
    values = run.operator_ns(PREDICT)
    return trimmed_mean(values) if len(values) else None
