"""Layers of kernels that a CUDA graph replayed: one launch started them all, so none tells.

By the graph's node where its layer was seen at capture; else by aligning the replay's sequence of
kernels with that of a run without graphs, whose kernels were launched one by one.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

import polars as pl

from services.analyzer.correlation.columns import ABSENT


def layers_by_node(kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the layer of each graph node that some span tells: graph_node, layer.

    `kernels` has both; a node told twice keeps its first layer.
    """
    told = kernels.select("graph_node", "layer").drop_nulls()
    return told.unique("graph_node", keep="first", maintain_order=True)


def aligned(names: Sequence[str], eager: pl.DataFrame) -> list[int | None]:
    """Return a layer for each kernel name of a replay, in order; None where nothing matches.

    `eager` has name and layer of one query's kernels in order. Equal stretches of names are
    matched, longest first (Ratcliff and Obershelp), so that fused or left-out kernels only lose
    their own.
    """
    theirs, layers = eager["name"].to_list(), eager["layer"].to_list()
    if theirs == list(names):
        return layers
    found: list[int | None] = [None] * len(names)
    for block in SequenceMatcher(None, theirs, list(names), autojunk=False).get_matching_blocks():
        found[block.b : block.b + block.size] = layers[block.a : block.a + block.size]
    return found


def aligned_replays(replayed: pl.DataFrame, eager: pl.DataFrame) -> pl.DataFrame:
    """Return the layer of each replayed kernel: span, layer.

    `replayed` has span, query, launch, launch_ns, name, start_ns. A query's replays are aligned
    together, for a second graph goes on where the first ended; what is of no query is aligned
    launch by launch. Equal sequences are aligned once.
    """
    alone = pl.when(pl.col("query") == ABSENT).then("launch")
    in_order = replayed.with_columns(alone.alias("alone")).sort(
        "query", "alone", "launch_ns", "launch", "start_ns"
    )
    known: dict[tuple[str, ...], list[int | None]] = {}
    layers: list[int | None] = []
    for call in in_order.group_by("query", "alone", maintain_order=True).agg("name")["name"]:
        names = tuple(call.to_list())
        if names not in known:
            known[names] = aligned(names, eager)
        layers += known[names]
    return in_order.select("span", pl.Series("layer", layers, pl.Int32))
