"""The stages of a pipeline whose queries overlap: when each stage of each query began and ended.

A query's operators before its predict are the stage `prepare`, those after it `post-process`. They
run side by side for different queries, and for the samples of one. A stage is busy while at least
one operator of any query runs in it; its servers, such as the processes that prepare, are utilised
by the summed time of its operators. Only spans' times tell the stages apart.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from services.analyzer.frames.derived import once_a_run
from services.analyzer.frames.evaluation import OPERATOR_LEVEL, PREDICT, Ns, Run

Reals = npt.NDArray[np.float64]

PREPARE, POST_PROCESS = "prepare", "post-process"
STAGES = (PREPARE, PREDICT, POST_PROCESS)
WINDOWS = 20
"""Stretches of a run whose busy shares count as independent, as the groups of a throughput do."""
LEAST_IN_WINDOW = 2
"""The fewest queries that a stretch holds on average."""


@dataclass(frozen=True, slots=True)
class Servers:
    """What carries out a run's stages beside the one server that predicts."""

    #: samples that can be prepared at a time
    preparing: int = 1
    #: of those, the servers that predict as well: all, or none
    shared: int = 0

    @property
    def is_device(self) -> bool:
        """Whether the model's device also prepares, in turn."""
        return self.shared == 1

    @classmethod
    def of(cls, run: Run) -> "Servers":
        """Return those of a run.

        Processes only prepare. Where threads of the predicting process prepare, the one that
        predicts helps them while it waits. An imported recording names neither: its threads count.
        """
        conditions = run.row.conditions
        if (conditions.get("options") or {}).get("decode") == "device":
            return cls(shared=1)
        if processes := int(conditions.get("prepare_processes") or 0):
            return cls(processes)
        if "prepare_threads" in conditions:
            threads = max(1, int(conditions["prepare_threads"])) + 1
            return cls(threads, shared=threads)
        prepared = stage_spans(run).filter(pl.col("stage") == PREPARE)
        return cls(max(1, prepared["thread"].n_unique()))


@once_a_run
def stage_spans(run: Run) -> pl.DataFrame:
    """Return the operators' spans with their stage.

    The columns are query, block, thread, stage, start_ns and end_ns.
    Spans within predict, such as copies, are part of it. Queries without predict are left out.
    """
    spans = run.spans_at(OPERATOR_LEVEL).select(
        "query",
        "block",
        "thread",
        "name",
        "start_ns",
        end_ns=pl.col("start_ns") + pl.col("duration_ns"),
    )
    predicts = (
        spans.filter(pl.col("name") == PREDICT)
        .group_by("query", maintain_order=True)
        .agg(predict_start=pl.col("start_ns").min(), predict_end=pl.col("end_ns").max())
    )
    is_before = pl.col("start_ns") < pl.col("predict_start")
    is_after = pl.col("start_ns") >= pl.col("predict_end")
    is_predict = (pl.col("name") == PREDICT) & ~is_before
    stage = (
        pl.when(is_before)
        .then(pl.lit(PREPARE))
        .when(is_predict)
        .then(pl.lit(PREDICT))
        .when(is_after)
        .then(pl.lit(POST_PROCESS))
    )
    staged = spans.join(predicts, on="query").with_columns(stage=stage).drop_nulls("stage")
    return staged.select("query", "block", "thread", "stage", "start_ns", "end_ns")


@once_a_run
def has_overlapping_stages(run: Run) -> bool:
    """Return whether a run prepared the samples of one query while others were on their way."""
    if not stage_spans(run).filter(pl.col("stage") == PREPARE).height:
        return False
    latest_end = pl.col("ended_ns").cum_max().shift(1).over("block", order_by="started_ns")
    return run.answered.filter(pl.col("started_ns") < latest_end).height > 0


def stage_times(run: Run) -> pl.DataFrame:
    """Return how long each query was in each stage, and waited before it (ns).

    The columns are query, stage, spent_ns and waited_ns, in the order of the stages. The first
    stage is waited for since the query was issued. These times add up to those of the whole query.
    """
    times = (
        stage_spans(run)
        .group_by("query", "stage", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .join(run.answered.select("query", "issued_ns"), on="query")
        .sort("query", "start_ns")
    )
    before = pl.col("end_ns").shift(1).over("query", order_by="start_ns")
    return times.select(
        "query",
        "stage",
        spent_ns=pl.col("end_ns") - pl.col("start_ns"),
        waited_ns=pl.col("start_ns") - before.fill_null(pl.col("issued_ns")),
    )


def busy_shares(run: Run, stage: str) -> Reals:
    """Return the share of each stretch of a run in which a `stage` was busy, float64 [stretches].

    Each block is divided into stretches of equal length, from its first operator to its last.
    """
    return _shares(run, stage, _busy_before)


def summed_shares(run: Run, stage: str) -> Reals:
    """Return the summed time of a `stage`'s operators in each stretch over the stretch's length.

    The stretches are those of `busy_shares`, float64; above 1 where several operators ran at once.
    """
    return _shares(run, stage, _summed_before)


def utilised_shares(run: Run, stage: str, servers: int) -> Reals:
    """Return the share of each stretch of a run in which a stage's `servers` worked, float64.

    Calls of a model that overlap count once: one is computed while the other waits or is copied.
    Processes also read samples and fill the model's inputs, which is part of no step.
    """
    shares = busy_shares(run, stage) if servers == 1 else summed_shares(run, stage) / servers
    prepared_ns = int(run.row.conditions.get("prepare_busy_ns") or 0)
    if stage != PREPARE or not prepared_ns:
        return shares
    steps = stage_spans(run).filter(stage=PREPARE)
    steps_ns = int((steps["end_ns"] - steps["start_ns"]).sum())
    return shares * max(1.0, prepared_ns / max(1, steps_ns))


def _shares(run: Run, stage: str, before: Callable[[Ns, Ns, Reals], Reals]) -> Reals:
    shares: list[Reals] = []
    blocks = stage_spans(run).partition_by("block", maintain_order=True)
    for block in blocks:
        queries = block["query"].n_unique()
        count = max(1, min(WINDOWS // len(blocks), queries // LEAST_IN_WINDOW))
        began, ended = block["start_ns"].to_numpy().min(), block["end_ns"].to_numpy().max()
        edges = np.linspace(float(began), float(ended), count + 1)
        own = block.filter(pl.col("stage") == stage).sort("start_ns")
        starts, ends = (own[name].to_numpy() for name in ("start_ns", "end_ns"))
        shares.append(np.diff(before(starts, ends, edges)) / np.diff(edges))
    return np.concatenate(shares) if shares else np.zeros(0)


def _summed_before(starts: Ns, ends: Ns, edges: Reals) -> Reals:
    """Return for each edge how long the intervals, summed, had run before it."""
    spent = ends - starts
    return np.array([np.clip(edge - starts, 0, spent).sum() for edge in edges], np.float64)


def _busy_before(starts: Ns, ends: Ns, edges: Reals) -> Reals:
    """Return for each edge how long at least one interval had run before it.

    The intervals are in the order of their `starts`.
    """
    if not len(starts):
        return np.zeros(len(edges))
    latest = np.maximum.accumulate(ends)
    is_first = np.concatenate([[True], starts[1:] > latest[:-1]])
    first = np.flatnonzero(is_first)
    began = starts[first].astype(np.float64)
    ended = np.maximum.reduceat(ends, first).astype(np.float64)
    busy_until = np.cumsum(ended - began)
    points = np.column_stack([began, ended]).ravel()
    busy = np.column_stack([busy_until - (ended - began), busy_until]).ravel()
    return np.asarray(np.interp(edges, points, busy), np.float64)
