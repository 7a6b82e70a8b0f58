"""Device work of a run as frames: kernels, copies and sets, and the calls that launched them."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import polars as pl

from schemas.batch import SpanKind
from services.analyzer.correlation import GRAPH, LAUNCH, METHODS, Correlated
from services.analyzer.correlation.columns import ABSENT, DEVICE_KINDS, Ns, Rows
from services.analyzer.correlation.graphs import aligned_replays, layers_by_node

Schema = Mapping[str, type[pl.DataType]]

COUNTERS = ("flops", "dram_read_bytes", "dram_write_bytes", "occupancy")
DEVICE_ATTRIBUTE_SCHEMA: Schema = MappingProxyType(
    {
        "span": pl.Int64,
        "graph_node": pl.Int64,
        "copy_kind": pl.String,
        **dict.fromkeys(COUNTERS, pl.Float64),
    }
)
"""What sources report of a device span: the node of its graph, its counters (occupancy in %).

`copy_kind` is the direction of a copy (mlscope.tracing.copy_kinds), null for other work and where
the source names none.
"""
DEVICE_WORK_SCHEMA: Schema = MappingProxyType(
    {
        "span": pl.Int64,
        "kind": pl.Int16,
        "name": pl.String,
        "query": pl.Int32,
        "block": pl.Int16,
        "layer": pl.Int32,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "device": pl.Int32,
        "stream": pl.Int32,
        "correlation": pl.Int64,
        "launch": pl.Int64,
        "launch_ns": pl.Int64,
        "method": pl.String,
        **{name: kind for name, kind in DEVICE_ATTRIBUTE_SCHEMA.items() if name != "span"},
    }
)
"""A row for each kernel, copy or set (`kind`) of a run.

`layer` is the index of the layer it is charged to, null outside of any; `launch` the span that
started it, `launch_ns` the start of that span, null where unknown; `method` as in a tree.
"""
LAUNCH_SCHEMA: Schema = MappingProxyType(
    {
        "span": pl.Int64,
        "name": pl.String,
        "query": pl.Int32,
        "block": pl.Int16,
        "layer": pl.Int32,
        "thread": pl.Int32,
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "correlation": pl.Int64,
        "started": pl.Int64,
    }
)
"""A row for each call that may start device work; `started` counts the spans it started."""


def no_device_attributes() -> pl.DataFrame:
    """Return an empty frame of DEVICE_ATTRIBUTE_SCHEMA: no source reported anything."""
    return pl.DataFrame(schema=dict(DEVICE_ATTRIBUTE_SCHEMA))


def device_work_of(
    tree: Correlated,
    device_attributes: pl.DataFrame,
    layers: Mapping[int, int],
    eager: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return a run's device work (DEVICE_WORK_SCHEMA) in the order of its starts.

    `tree` holds the run's spans, `device_attributes` what sources report of device spans
    (DEVICE_ATTRIBUTE_SCHEMA), `layers` the indices of layers that sources named, by span; `eager`
    has name and layer of one query's kernels in a run without graphs.
    """
    kinds = tree.spans["kind"].to_numpy()
    rows = np.flatnonzero(np.isin(kinds, [int(kind) for kind in DEVICE_KINDS]))
    work = _placed(tree, rows)
    if layers:
        named = pl.DataFrame(
            {"span": list(layers), "named": list(layers.values())},
            schema={"span": pl.Int64, "named": pl.Int32},
        )
        work = work.join(named, on="span", how="left", maintain_order="left").with_columns(
            pl.coalesce("named", "layer").alias("layer")
        )
    if device_attributes.height:
        work = work.join(device_attributes, on="span", how="left", maintain_order="left")
    missing = [
        pl.lit(None, kind).alias(n) for n, kind in DEVICE_ATTRIBUTE_SCHEMA.items() if n not in work
    ]
    work = work.with_columns(missing)
    work = _with_replayed_layers(work, _captured_nodes(tree, device_attributes), eager)
    return work.select(pl.col(name).cast(kind) for name, kind in DEVICE_WORK_SCHEMA.items())


def counted_in(work: pl.DataFrame, query: object) -> pl.DataFrame:
    """Return device work in which the kernels of a replay for counters get the number `query`.

    A replay counts the kernels of one call outside of queries; they stand for any one query's.
    """
    is_counted = pl.any_horizontal(pl.col(name).is_not_null() for name in COUNTERS)
    is_lone = (pl.col("query") == ABSENT) & pl.col("launch").is_null() & is_counted
    assigned = pl.lit(ABSENT if query is None else query, pl.Int32)
    return work.with_columns(pl.when(is_lone).then(assigned).otherwise("query").alias("query"))


def launches_of(tree: Correlated) -> pl.DataFrame:
    """Return a run's calls that may start device work (LAUNCH_SCHEMA), in their order."""
    rows = np.flatnonzero(tree.spans["kind"].to_numpy() == int(SpanKind.LAUNCH))
    started = np.bincount(tree.launch[tree.launch != ABSENT], minlength=len(tree.launch))
    calls = _placed(tree, rows).with_columns(
        tree.spans["thread"].gather(rows), pl.Series("started", started[rows], pl.Int64)
    )
    return calls.select(pl.col(name).cast(kind) for name, kind in LAUNCH_SCHEMA.items())


def unattributed_share(kernels: pl.DataFrame) -> float:
    """Return the share (0 to 1) of kernel time, without copies and sets, in no known layer.

    Kernels that an agent launched between queries, to learn the layers of a graph, do not count.
    """
    is_between_queries = (
        (pl.col("query") == ABSENT) & pl.col("launch").is_not_null() & pl.col("layer").is_not_null()
    )
    only = kernels.filter(pl.col("kind") == int(SpanKind.KERNEL), ~is_between_queries)
    total = int(only["duration_ns"].sum())
    unattributed = int(only.filter(pl.col("layer").is_null())["duration_ns"].sum())
    return unattributed / total if total else 0.0


def replayed_share(kernels: pl.DataFrame) -> float | None:
    """Return the share (0 to 1) of graph-replayed kernel time with a layer; None without any."""
    replayed = kernels.filter(
        pl.col("kind") == int(SpanKind.KERNEL), pl.col("method") == GRAPH, pl.col("query") != ABSENT
    )
    total = int(replayed["duration_ns"].sum())
    attributed = int(replayed.filter(pl.col("layer").is_not_null())["duration_ns"].sum())
    return attributed / total if total else None


def eager_of(kernels: pl.DataFrame) -> pl.DataFrame | None:
    """Return name and layer of one query's kernels, launched one by one; None without any.

    An agent's call without graphs between queries, made to learn the layers, is preferred.
    """
    placed = kernels.filter((pl.col("method") == LAUNCH) & pl.col("layer").is_not_null())
    if not placed.height:
        return None
    placed = placed.sort(pl.col("query") != ABSENT, maintain_order=True)
    of_query = kernels.filter(pl.col("query") == placed["query"][0])
    return of_query.sort("start_ns", maintain_order=True).select("name", "layer")


def _placed(tree: Correlated, rows: Rows) -> pl.DataFrame:
    """Return spans with their query, layer index and launch."""
    spans, launch = tree.spans, tree.launch[rows]
    start = spans["start_ns"].to_numpy()
    columns = ("span", "kind", "name", "block", "start_ns", "duration_ns", "device", "stream")
    layer_rows = pl.Series(tree.layer[rows])
    known_rows = pl.select(pl.when(layer_rows >= 0).then(layer_rows)).to_series()
    of_layer = spans["layer"].gather(known_rows)
    return spans.select(*columns, "correlation", pl.col("layer").alias("own_layer"))[
        rows
    ].with_columns(
        pl.Series("query", tree.query[rows], pl.Int32),
        pl.coalesce(pl.col("own_layer"), of_layer.alias("layer")).alias("layer"),
        _gathered_ints(spans["span"].to_numpy(), launch).alias("launch"),
        _gathered_ints(start, launch).alias("launch_ns"),
        pl.Series(METHODS, dtype=pl.String).gather(tree.method[rows]).alias("method"),
    )


def _gathered_ints(values: Ns, rows: Rows) -> pl.Series:
    if not len(values):
        return pl.Series([], dtype=pl.Int64)
    return pl.select(pl.when(pl.Series(rows != ABSENT)).then(pl.Series(values[rows]))).to_series()


def _captured_nodes(tree: Correlated, device_attributes: pl.DataFrame) -> pl.DataFrame:
    """Return the layer of graph nodes that were created inside of a layer: graph_node, layer."""
    nodes = (
        device_attributes.drop_nulls("graph_node")
        if device_attributes.height
        else device_attributes
    )
    schema = {"graph_node": pl.Int64, "layer": pl.Int32}
    if not nodes.height:
        return pl.DataFrame(schema=schema)
    kinds = tree.spans["kind"].to_numpy()
    rows = np.flatnonzero(~np.isin(kinds, [int(kind) for kind in DEVICE_KINDS]))
    with_layers = nodes.join(_placed(tree, rows).select("span", "layer"), on="span")
    return with_layers.select(pl.col(name).cast(kind) for name, kind in schema.items())


def _with_replayed_layers(
    kernels: pl.DataFrame, captured: pl.DataFrame, eager: pl.DataFrame | None
) -> pl.DataFrame:
    """Give kernels of graphs their layers: by node, by the span around their launch, by order."""
    is_replayed = kernels["method"] == GRAPH
    if not is_replayed.any():
        return kernels
    one_by_one = kernels.filter(~is_replayed).select("graph_node", "layer")
    by_node = layers_by_node(pl.concat([captured, one_by_one], how="vertical_relaxed"))
    kernels = kernels.join(
        by_node.rename({"layer": "by_node"}), on="graph_node", how="left", maintain_order="left"
    ).with_columns(pl.coalesce("by_node", "layer").alias("layer"))
    unattributed = kernels.filter((pl.col("method") == GRAPH) & pl.col("layer").is_null())
    if eager is None or not unattributed.height:
        return kernels.drop("by_node")
    by_order = aligned_replays(kernels.filter(pl.col("method") == GRAPH), eager)
    return (
        kernels.join(
            by_order.rename({"layer": "by_order"}), on="span", how="left", maintain_order="left"
        )
        .with_columns(pl.coalesce("layer", "by_order").alias("layer"))
        .drop("by_node", "by_order")
    )
