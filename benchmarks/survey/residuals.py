"""How far layers + time between - (L - M) is from M, each term from blocks of its own.

Blocks of level model (M) and level framework (L) alternate. Every third pair of neighbours gives
one term: the layers are of the L blocks of one third, the time between them of those of another,
the overhead L - M of the pairs of the last; M itself is of the pairs that gave no overhead. So no
term shares a query with another, and nothing cancels: a capture whose cost changed from block to
block, layers that overlap (their sum is then more than the time they cover) or a drift of the
machine would show. Terms that lie side by side make one difference; the residual is the median of
these, with the interval of a median (order statistics).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import polars as pl

from mlscope.statistics.intervals import Interval, percentile_interval
from services.analyzer.building.busy import busy_ns
from services.analyzer.frames.evaluation import LAYER_LEVEL, OPERATOR_LEVEL, PREDICT, Run

SKIPPED = 2
"""Queries at a block's begin that are left out: clocks and caches come back from a pause."""
BUSY = 1.05
"""A block that takes more than this many times the lower quartile of its run was disturbed."""


@dataclass(frozen=True, slots=True)
class Block:
    """Medians over one pair of blocks, ns: predict at levels model and framework, and L's parts."""

    model: float
    layered: float
    layers: float
    between: float


@dataclass(frozen=True, slots=True)
class Residual:
    """Medians over blocks, ns; `residual` and its interval are shares of M."""

    model: float
    layers: float
    between: float
    overhead: float
    residual: float
    interval: Interval
    #: neighbours of three pairs that each gave a residual, and the half width they scatter by
    triples: int
    scatter: float


def blocks_of(plain: Run, layered: Run) -> list[Block]:
    """Return the pairs of blocks of the same number, those with too few queries left out."""
    plain_ns, layered_ns = _predicts(plain), _predicts(layered)
    spans = layered.spans_at(LAYER_LEVEL)
    summed = spans.group_by("query").agg(pl.col("duration_ns").sum().alias("layers"))
    covered = busy_ns(spans, ["query"])
    parts = layered_ns.join(summed, on="query").join(covered, on="query")
    parts = parts.with_columns((pl.col("ns") - pl.col("busy_ns")).alias("between"))
    models = _medians(plain_ns, "ns").rename({"ns": "model"})
    blocks = models.join(_medians(parts, "ns", "layers", "between"), on="block").sort("block")
    return [
        Block(model, layered, layers, between)
        for model, layered, layers, between in blocks.select(
            "model", "ns", "layers", "between"
        ).iter_rows()
    ]


def undisturbed(blocks: Sequence[Block]) -> list[Block]:
    """Return the pairs neither of whose predicts is far above the lower quartile of its level.

    Neighbours on a shared host only ever add time, and for longer than a block.
    """
    if not blocks:
        return []
    model = BUSY * float(np.quantile([block.model for block in blocks], 0.25))
    layered = BUSY * float(np.quantile([block.layered for block in blocks], 0.25))
    return [block for block in blocks if block.model <= model and block.layered <= layered]


def residual_of(blocks: Sequence[Block]) -> Residual | None:
    """Return the residual of neighbouring blocks; None below three of them.

    Which third gives which term moves on from triple to triple, so that no term is always first.
    """
    triples = [blocks[at : at + 3] for at in range(0, len(blocks) - 2, 3)]
    if not triples:
        return None
    shares = []
    for number, triple in enumerate(triples):
        first, second, third = (triple[(number + place) % 3] for place in range(3))
        residual = first.layers + second.between - (third.layered - third.model)
        model = (first.model + second.model) / 2
        shares.append(residual / model - 1)
    middle = median(shares)
    return Residual(
        model=median(block.model for block in blocks),
        layers=median(block.layers for block in blocks),
        between=median(block.between for block in blocks),
        overhead=median(block.layered - block.model for block in blocks),
        residual=middle,
        interval=percentile_interval(shares, 0.5),
        triples=len(triples),
        scatter=float(np.median(np.abs(np.array(shares) - middle))),
    )


def _predicts(run: Run) -> pl.DataFrame:
    """Return predict of each query but a block's first: query, block, ns."""
    spans = run.spans_at(OPERATOR_LEVEL).filter(pl.col("name") == PREDICT)
    predicts = spans.sort("query").filter(pl.int_range(pl.len()).over("block") >= SKIPPED)
    return predicts.select("query", "block", pl.col("duration_ns").alias("ns"))


def _medians(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    return frame.group_by("block").agg(pl.col(column).median() for column in columns)
