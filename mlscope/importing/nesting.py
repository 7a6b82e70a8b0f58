"""Levels of spans by how deep they nest: for tools that do not say what their spans are. Pure.

The outermost spans of a thread are queries, those within them operators, then layers, then library
calls.
"""

import numpy as np
import polars as pl

from mlscope.importing.recording import merged, query_spans, with_all_columns
from schemas.level import Level


def is_outermost() -> pl.Expr:
    """Return whether a span (start_ns, duration_ns, thread) lies in no other of its thread.

    Spans are in the order of their starts; of equal starts the longest is first.
    """
    end = pl.col("start_ns") + pl.col("duration_ns")
    previous_end = end.cum_max().shift(1).over("thread")
    return (pl.col("start_ns") >= previous_end).fill_null(value=True)


def leveled_by_depth(spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans with levels; `spans` has name, start_ns, duration_ns and thread."""
    ordered = spans.sort("thread", "start_ns", -pl.col("duration_ns"), maintain_order=True)
    start = ordered["start_ns"].to_list()
    end = (ordered["start_ns"] + ordered["duration_ns"]).to_list()
    depths = np.zeros(len(start), np.int64)
    open_ends: list[int] = []
    previous_thread = None
    for row, thread in enumerate(ordered["thread"].to_list()):
        if thread != previous_thread:
            open_ends, previous_thread = [], thread
        while open_ends and open_ends[-1] < end[row]:
            open_ends.pop()
        while open_ends and open_ends[-1] <= start[row] and end[row] > start[row]:
            open_ends.pop()
        depths[row] = len(open_ends)
        open_ends.append(end[row])
    nested = ordered.with_columns(pl.Series("depth", depths))
    outermost = nested.filter(pl.col("depth") == 0).drop("depth")
    roots = query_spans(outermost, pl.col("name"))
    inner = nested.filter(pl.col("depth") > 0).with_columns(
        (pl.col("depth") + 1).clip(upper_bound=int(Level.LIBRARY)).alias("level")
    )
    if not inner.height:
        return with_all_columns(roots)
    queries = roots.filter(pl.col("level") == int(Level.APPLICATION))
    return merged([queries, inner.drop("depth")])
