"""The weights of layers in a cold start: loading them, moving them to a device, their bytes."""

from collections.abc import Iterable, Sequence
from itertools import product

import polars as pl

from mlscope.tracing.weights import LOAD, PLACE, weights_prefix
from schemas.batch import SpanKind
from services.analyzer.frames.evaluation import Run


def weight_spans(run: Run, action: str) -> pl.DataFrame:
    """Return the spans of loading or moving weights (`action`): layer, start_ns, duration_ns."""
    prefix = weights_prefix(action)
    is_of_action = pl.col("name").str.starts_with(prefix) & (pl.col("kind") == int(SpanKind.HOST))
    layer = pl.col("name").str.strip_prefix(prefix).alias("layer")
    return run.spans.filter(is_of_action).select(layer, "start_ns", "duration_ns").sort("start_ns")


def weight_copies(run: Run) -> pl.DataFrame:
    """Return the copies on the device that began while weights were moved: layer, duration_ns."""
    places = weight_spans(run, PLACE).with_columns(
        (pl.col("start_ns") + pl.col("duration_ns")).alias("ended_ns")
    )
    copies = (
        run.device_work.filter(pl.col("kind") == int(SpanKind.COPY))
        .select(pl.coalesce("launch_ns", "start_ns").alias("at_ns"), "duration_ns")
        .sort("at_ns")
    )
    joined = copies.join_asof(
        places.select("layer", "start_ns", "ended_ns"), left_on="at_ns", right_on="start_ns"
    )
    return joined.filter(pl.col("at_ns") <= pl.col("ended_ns")).select("layer", "duration_ns")


def summed_by_layer(frames: Iterable[pl.DataFrame]) -> dict[str, list[float]]:
    """Return the summed durations (ns) of each layer, one value for each frame that has it."""
    by_layer: dict[str, list[float]] = {}
    for frame in frames:
        sums = frame.group_by("layer", maintain_order=True).agg(pl.col("duration_ns").sum())
        for layer, ns in sums.iter_rows():
            by_layer.setdefault(layer, []).append(float(ns))
    return by_layer


def weight_bytes(runs: Sequence[Run]) -> dict[str, int]:
    """Return the bytes of each layer's own weights, from the first run that reports them."""
    sizes: dict[str, int] = {}
    for run, prefix in product(runs, map(weights_prefix, (LOAD, PLACE))):
        reported = run.series.filter(pl.col("name").str.starts_with(prefix))
        for name, value in reported.select("name", "value").iter_rows():
            sizes.setdefault(name.removeprefix(prefix), int(value))
    return sizes
