"""Device work of a run as frames: kernels with their layers, and the calls that launched them."""

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
NATURE_SCHEMA: Schema = MappingProxyType(
    {
        "span": pl.Int64,
        "graph_node": pl.Int64,
        **dict.fromkeys(COUNTERS, pl.Float64),
    }
)
"""What sources say of single device spans: the node of its graph, its counters (occupancy in %)."""
KERNEL_SCHEMA: Schema = MappingProxyType(
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
        **{name: kind for name, kind in NATURE_SCHEMA.items() if name != "span"},
    }
)
"""A row a kernel, copy or set (`kind`) of a run.

`layer` is the index of the layer it is charged to, null outside of any; `launch` the span that
started it, `launch_ns` that one's start, null where none is known; `method` as in a tree.
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
"""A row a call that may start device work; `started` is how many spans it did start."""


def no_natures() -> pl.DataFrame:
    """Return that no source said anything."""
    return pl.DataFrame(schema=dict(NATURE_SCHEMA))


def kernels_of(
    tree: Correlated,
    natures: pl.DataFrame,
    layers: Mapping[int, int],
    eager: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Return a run's device work (KERNEL_SCHEMA) in the order of its starts.

    `layers` are the indices of layers that sources named, by span; `eager` is name and layer of a
    query's kernels in a run without graphs.
    """
    kinds = tree.spans["kind"].to_numpy()
    rows = np.flatnonzero(np.isin(kinds, [int(kind) for kind in DEVICE_KINDS]))
    found = _placed(tree, rows)
    if layers:
        named = pl.DataFrame(
            {"span": list(layers), "named": list(layers.values())},
            schema={"span": pl.Int64, "named": pl.Int32},
        )
        found = found.join(named, on="span", how="left", maintain_order="left").with_columns(
            pl.coalesce("named", "layer").alias("layer")
        )
    if natures.height:
        found = found.join(natures, on="span", how="left", maintain_order="left")
    missing = [pl.lit(None, kind).alias(n) for n, kind in NATURE_SCHEMA.items() if n not in found]
    found = found.with_columns(missing)
    hosts = _host_nodes(tree, natures)
    found = _replayed(found, hosts, eager)
    return found.select(pl.col(name).cast(kind) for name, kind in KERNEL_SCHEMA.items())


def counted_in(kernels: pl.DataFrame, query: object) -> pl.DataFrame:
    """Return device work in which a replay for counters, which is of no query, is of `query`.

    A replay counts the kernels of one call, so they stand for those of any one query.
    """
    is_counted = pl.any_horizontal(pl.col(name).is_not_null() for name in COUNTERS)
    is_lone = (pl.col("query") == ABSENT) & pl.col("launch").is_null() & is_counted
    told = pl.lit(ABSENT if query is None else query, pl.Int32)
    return kernels.with_columns(pl.when(is_lone).then(told).otherwise("query").alias("query"))


def launches_of(tree: Correlated) -> pl.DataFrame:
    """Return a run's calls that may start device work (LAUNCH_SCHEMA), in their order."""
    rows = np.flatnonzero(tree.spans["kind"].to_numpy() == int(SpanKind.LAUNCH))
    started = np.bincount(tree.launch[tree.launch != ABSENT], minlength=len(tree.launch))
    found = _placed(tree, rows).with_columns(
        tree.spans["thread"].gather(rows), pl.Series("started", started[rows], pl.Int64)
    )
    return found.select(pl.col(name).cast(kind) for name, kind in LAUNCH_SCHEMA.items())


def unattributed_share(kernels: pl.DataFrame) -> float:
    """Return the share of kernels' time, without copies and sets, that lies in no known layer.

    Those of the call that an agent makes to learn the layers of a graph do not count.
    """
    only = kernels.filter(pl.col("kind") == int(SpanKind.KERNEL), ~_of_no_query())
    total = int(only["duration_ns"].sum())
    lost = int(only.filter(pl.col("layer").is_null())["duration_ns"].sum())
    return lost / total if total else 0.0


def replayed_share(kernels: pl.DataFrame) -> float | None:
    """Return the share of the time of kernels that graphs replayed which has a layer."""
    replayed = kernels.filter(
        pl.col("kind") == int(SpanKind.KERNEL), pl.col("method") == GRAPH, pl.col("query") != ABSENT
    )
    total = int(replayed["duration_ns"].sum())
    known = int(replayed.filter(pl.col("layer").is_not_null())["duration_ns"].sum())
    return known / total if total else None


def _of_no_query() -> pl.Expr:
    """Say which kernels a call between queries launched, inside of a layer."""
    return (
        (pl.col("query") == ABSENT) & pl.col("launch").is_not_null() & pl.col("layer").is_not_null()
    )


def eager_of(kernels: pl.DataFrame) -> pl.DataFrame | None:
    """Return name and layer of one query's kernels, launched one by one; None where none are.

    The call without graphs that an agent made to tell them, which is of no query, comes first.
    """
    placed = kernels.filter((pl.col("method") == LAUNCH) & pl.col("layer").is_not_null())
    if not placed.height:
        return None
    placed = placed.sort(pl.col("query") != ABSENT, maintain_order=True)
    mine = kernels.filter(pl.col("query") == placed["query"][0])
    return mine.sort("start_ns").select("name", "layer")


def _placed(tree: Correlated, rows: Rows) -> pl.DataFrame:
    """Return spans with their query, layer index and launch."""
    spans, launch = tree.spans, tree.launch[rows]
    start = spans["start_ns"].to_numpy()
    columns = ("span", "kind", "name", "block", "start_ns", "duration_ns", "device", "stream")
    of_layer = _taken(spans["layer"], tree.layer[rows])
    return spans.select(*columns, "correlation", pl.col("layer").alias("told"))[rows].with_columns(
        pl.Series("query", tree.query[rows], pl.Int32),
        pl.coalesce(pl.col("told"), of_layer.alias("layer")).alias("layer"),
        _known(spans["span"].to_numpy(), launch).alias("launch"),
        _known(start, launch).alias("launch_ns"),
        pl.Series(METHODS, dtype=pl.String).gather(tree.method[rows]).alias("method"),
    )


def _known(values: Ns, rows: Rows) -> pl.Series:
    if not len(values):
        return pl.Series([], dtype=pl.Int64)
    return pl.select(pl.when(pl.Series(rows != ABSENT)).then(pl.Series(values[rows]))).to_series()


def _taken(values: pl.Series, rows: Rows) -> pl.Series:
    """Return values by row, null where there is no row."""
    return values.gather(pl.select(pl.when(pl.Series(rows) >= 0).then(pl.Series(rows))).to_series())


def _host_nodes(tree: Correlated, natures: pl.DataFrame) -> pl.DataFrame:
    """Return graph nodes that were seen being made inside of a layer: graph_node, layer."""
    nodes = natures.drop_nulls("graph_node") if natures.height else natures
    schema = {"graph_node": pl.Int64, "layer": pl.Int32}
    if not nodes.height:
        return pl.DataFrame(schema=schema)
    kinds = tree.spans["kind"].to_numpy()
    rows = np.flatnonzero(~np.isin(kinds, [int(kind) for kind in DEVICE_KINDS]))
    known = nodes.join(_placed(tree, rows).select("span", "layer"), on="span")
    return known.select(pl.col(name).cast(kind) for name, kind in schema.items())


def _replayed(
    kernels: pl.DataFrame, hosts: pl.DataFrame, eager: pl.DataFrame | None
) -> pl.DataFrame:
    """Give kernels of graphs their layers: by node, by the span around their launch, by order."""
    is_replayed = kernels["method"] == GRAPH
    if not is_replayed.any():
        return kernels
    one_by_one = kernels.filter(~is_replayed).select("graph_node", "layer")
    by_node = layers_by_node(pl.concat([hosts, one_by_one], how="vertical_relaxed"))
    found = kernels.join(
        by_node.rename({"layer": "by_node"}), on="graph_node", how="left", maintain_order="left"
    ).with_columns(pl.coalesce("by_node", "layer").alias("layer"))
    lost = found.filter((pl.col("method") == GRAPH) & pl.col("layer").is_null())
    if eager is None or not lost.height:
        return found.drop("by_node")
    by_order = aligned_replays(found.filter(pl.col("method") == GRAPH), eager)
    return (
        found.join(
            by_order.rename({"layer": "by_order"}), on="span", how="left", maintain_order="left"
        )
        .with_columns(pl.coalesce("layer", "by_order").alias("layer"))
        .drop("by_node", "by_order")
    )
