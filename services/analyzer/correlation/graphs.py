"""Layers of kernels that a CUDA graph replayed: their one launch does not identify them.

By the graph's node where its layer is known from the capture; else by aligning the sequence of
replayed kernels with that of a run without graphs, whose kernels were launched one by one.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

import polars as pl

from services.analyzer.correlation.columns import ABSENT


def layers_by_node(kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the layer of each graph node that some span has: graph_node, layer.

    `kernels` has both columns; a node with several layers keeps the first.
    """
    with_layers = kernels.select("graph_node", "layer").drop_nulls()
    return with_layers.unique("graph_node", keep="first", maintain_order=True)


def aligned(names: Sequence[str], eager: pl.DataFrame) -> list[int | None]:
    """Return a layer for each kernel name of a replay, in order; None where nothing matches.

    `eager` has name and layer of one query's kernels in order. Equal stretches of names are
    matched, longest first (Ratcliff and Obershelp), so only fused or left-out kernels lose their
    own layer.
    """
    eager_names, layers = eager["name"].to_list(), eager["layer"].to_list()
    if eager_names == list(names):
        return layers
    aligned_layers: list[int | None] = [None] * len(names)
    for block in SequenceMatcher(
        None, eager_names, list(names), autojunk=False
    ).get_matching_blocks():
        aligned_layers[block.b : block.b + block.size] = layers[block.a : block.a + block.size]
    return aligned_layers


def aligned_replays(replayed: pl.DataFrame, eager: pl.DataFrame) -> pl.DataFrame:
    """Return the layer of each replayed kernel: span, layer.

    `replayed` has span, query, launch, launch_ns, name, start_ns. A query's replays are aligned
    together, for a second graph continues where the first ended; kernels of no query are aligned
    launch by launch. Equal sequences are aligned once.
    """
    alone = pl.when(pl.col("query") == ABSENT).then("launch")
    in_order = replayed.with_columns(alone.alias("alone")).sort(
        "query", "alone", "launch_ns", "launch", "start_ns", "span"
    )
    by_names: dict[tuple[str, ...], list[int | None]] = {}
    layers: list[int | None] = []
    for call in in_order.group_by("query", "alone", maintain_order=True).agg("name")["name"]:
        names = tuple(call.to_list())
        if names not in by_names:
            by_names[names] = aligned(names, eager)
        layers += by_names[names]
    return in_order.select("span", pl.Series("layer", layers, pl.Int32))
