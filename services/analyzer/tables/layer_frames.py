"""A run's layers as frames: their time by query, and one row each with its statistics."""

from collections.abc import Iterable, Iterator

import polars as pl

from mlscope.load.scenarios import COLD
from mlscope.statistics import trimmed_mean
from services.analyzer.derived import once
from services.analyzer.frames import LAYER_LEVEL, PREDICT, Frames, Run
from services.analyzer.grouped import trimmed
from services.analyzer.tables.table import in_time

NO_LAYERS = "No run at level framework has layers."
NOT_ASKED = "No run was traced at level framework, which tells of layers."
COLD_ALONE = "Layers were traced in cold starts alone: they are in cold_layers."

MOST_TRIMMED = 0.1
"""What layers' trimmed means may lack of their sum before it is said."""
_NATURE = ("type", "shape", "provider", "original", "memory_kind")
_AMOUNTS = ("memory_bytes", "flops", "bytes_read", "bytes_written")


def no_layers(frames: Frames) -> str:
    """Return why a table of layers is empty: not asked for, of cold starts alone, or not shown."""
    if not any(row.level >= LAYER_LEVEL for row in frames.runs):
        return NOT_ASKED
    is_cold = (run for run in frames.measured if run.row.variant == COLD)
    if any(run.spans_at(LAYER_LEVEL).height for run in is_cold):
        return COLD_ALONE
    return NO_LAYERS


def layer_times(run: Run) -> pl.DataFrame:
    """Return time by layer and query: place, query, time_ns, spans; `layers_of` tells of places.

    A query in which a layer did not run, while others did, took 0 of it.
    """
    return once(run, _times_and_places)[0]


def _times_and_places(run: Run) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return `layer_times`, and what is at each place: place, node, name.

    A layer is one index (`node`) and name: layers of the same name stay apart, those without an
    index by which of them in their query they are. `place` is the order in which they first began.
    """
    spans = _keyed(run)
    first = spans.group_by("key").agg(
        pl.col("start_ns").min(), pl.col("node").first(), pl.col("name").first()
    )
    places = first.sort("start_ns", "key").with_row_index("place")
    ran = (
        spans.select("key", "query", "duration_ns")
        .join(places.select("key", "place"), on="key")
        .group_by("place", "query")
        .agg(pl.col("duration_ns").sum().alias("time_ns"), pl.len().alias("spans"))
    )
    pairs = places.select("place").join(spans.select("query").unique(), how="cross")
    times = (
        pairs.join(ran, on=["place", "query"], how="left")
        .with_columns(pl.col("time_ns", "spans").fill_null(0))
        .sort("place", "query")
    )
    return times, places.select("place", "node", "name")


def _keyed(run: Run) -> pl.DataFrame:
    """Return a run's layer spans with `node` and `key`, one number for each layer."""
    spans = run.spans_at(LAYER_LEVEL).select("query", "start_ns", "duration_ns", "layer", "name")
    # Numbers group far faster than texts.
    code = pl.col("name").cast(pl.Categorical).to_physical().cast(pl.Int64)
    nth = pl.lit(0, pl.Int64)
    if spans["layer"].null_count():
        order = pl.int_range(pl.len(), dtype=pl.Int64).over("query", "name", order_by="start_ns")
        nth = pl.when(pl.col("layer").is_null()).then(order).otherwise(0)
    spans = spans.with_columns(
        code.alias("code"), nth.alias("nth"), pl.col("layer").fill_null(-1).alias("node")
    )
    codes = int(spans["code"].max() or 0) + 1  # type: ignore[arg-type]
    times = int(spans["nth"].max() or 0) + 1  # type: ignore[arg-type]
    node = pl.col("node").cast(pl.Int64) + 1
    key = (node * codes + pl.col("code")) * times + pl.col("nth")
    return spans.with_columns(key.alias("key"))


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
    times, places = once(run, _times_and_places)
    natures = _natures(run)
    time = trimmed(times, ["place"], "time_ns").rename(
        {"n": "queries", "mid": "time", "low": "time_low", "high": "time_high"}
    )
    spans = times.group_by("place").agg(pl.col("spans").sum())
    ran = (
        places.join(natures, on=["node", "name"], how="left", maintain_order="left")
        .join(time, on="place", maintain_order="left")
        .join(spans, on="place", maintain_order="left")
    )
    never = natures.join(ran, on=["node", "name"], how="anti")
    idle = never.sort("node").with_columns(
        pl.int_range(ran.height, ran.height + pl.len()).cast(pl.UInt32).alias("place"),
        pl.lit(0, pl.Int64).alias("queries"),
        pl.lit(0, pl.UInt32).alias("spans"),
    )
    both = pl.concat([ran, idle], how="diagonal")
    return both.with_columns(pl.col("type", "shape", "provider", "original").fill_null(""))


def trimmed_off(runs: Iterable[Run]) -> Iterator[str]:
    """Yield of which runs' layers the trimmed means add up to far less than all layers took.

    A delay that hits another layer in each query is cut off every layer, but stays in their sum.
    """
    for run in runs:
        sums = layer_times(run).group_by("query").agg(pl.col("time_ns").sum())["time_ns"]
        whole = trimmed_mean(sums.to_numpy()) if sums.len() else 0.0
        parts = float(layers_of(run)["time"].sum())
        if parts < (1 - MOST_TRIMMED) * whole:
            yield (
                f"{run.row.run}: layers' trimmed means add up to {in_time(parts)}, all layers of a "
                f"query take {in_time(whole)}: delays that hit now this layer, now that one are "
                "trimmed off each, so that its share of predict is low"
            )


def predict_ns(run: Run) -> float | None:
    """Return the trimmed mean of predict a query, in the same run."""
    return once(run, _predict_ns)


def _predict_ns(run: Run) -> float | None:
    values = run.operator_ns(PREDICT)
    return trimmed_mean(values) if len(values) else None
