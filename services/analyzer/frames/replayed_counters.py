"""A run's kernels with the counters of another run: a replay counts what timed runs do not."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from mlscope.counts import many, verb
from services.analyzer.frames.evaluation import Run
from services.analyzer.frames.kernels import COUNTERS, IDENTITY, has_all_counters, kernels_of


@dataclass(frozen=True, slots=True)
class CountedKernels:
    """A run's kernels with their counters, of whichever run, and what does not agree."""

    kernels: pl.DataFrame
    notes: tuple[str, ...]
    has_counters: bool


def with_counters(run: Run, replays: Sequence[Run]) -> CountedKernels:
    """Return a run's kernels with the counters of their own run, else of one of its `replays`.

    A replay's kernels are joined by layer, name and order; where it has no layers, by name and
    order in the query.
    """
    kernels = kernels_of(run)
    if _has_counters(kernels):
        return CountedKernels(kernels, tuple(_missing_counter_notes(run, kernels)), True)
    for replay in replays:
        replayed = kernels_of(replay)
        if replay is run or not _has_counters(replayed):
            continue
        joined, unmatched = _join_counters(kernels, replayed)
        notes = _missing_counter_notes(run, joined)
        if unmatched:
            notes.append(
                f"{replay.row.run}: {unmatched} of its counted kernels did not run in {run.row.run}"
            )
        return CountedKernels(joined, tuple(notes), True)
    return CountedKernels(kernels, (), False)


def _has_counters(kernels: pl.DataFrame) -> bool:
    return any(kernels[name].count() for name in COUNTERS)


def _join_counters(kernels: pl.DataFrame, replayed: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return kernels with a replay's counters, and how many of the replay's are not among them."""
    # The replay's own session was traced too: what it traced without counters is no further kernel.
    is_counted = pl.any_horizontal(pl.col(name).is_not_null() for name in COUNTERS)
    replayed = replayed.filter(is_counted)
    nth = pl.int_range(pl.len()).over("query", "layer", "name").cast(replayed.schema["nth"])
    replayed = replayed.with_columns(nth.alias("nth"))
    key = list(IDENTITY)
    in_query = pl.int_range(pl.len(), dtype=pl.UInt32).over("query", "name").alias("in_query")
    if replayed["layer"].count() == 0 or _has_same_kernels(kernels, replayed):
        key = ["name", "in_query"]
        kernels, replayed = kernels.with_columns(in_query), replayed.with_columns(in_query)
    means = replayed.group_by(key, maintain_order=True).agg(
        pl.col(name).mean() for name in COUNTERS
    )
    unmatched = means.join(kernels, on=key, how="anti", nulls_equal=True).height
    joined = kernels.drop(COUNTERS).join(
        means, on=key, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.drop("in_query", strict=False), unmatched


def placed_as(replayed: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return a replay's kernels (name, layer, in order) with the layers of a traced run's kernels.

    Kernels match by name and order in the query; they keep their own layers where the two runs
    did not run the same kernels.
    """
    if not _has_same_kernels(kernels, replayed):
        return replayed
    order = pl.int_range(pl.len(), dtype=pl.UInt32)
    traced = kernels.select("name", "layer", order.over("query", "name").alias("in_query"))
    first_query = traced.unique(["name", "in_query"], keep="first", maintain_order=True)
    return (
        replayed.drop("layer")
        .with_columns(order.over("name").alias("in_query"))
        .join(first_query, on=["name", "in_query"], how="left", maintain_order="left")
        .drop("in_query")
    )


def _has_same_kernels(kernels: pl.DataFrame, replayed: pl.DataFrame) -> bool:
    """Return whether each query runs as many kernels of each name as the replay's one query does.

    Then their order identifies them, where names of layers may not: a module that is called three
    times (ResNet's relu) is one NVTX range, and kernels between two modules lie in their parent.
    """
    replay_counts = replayed.group_by("name", maintain_order=True).agg(pl.len().alias("replayed"))
    counts = kernels.group_by("query", "name", maintain_order=True).agg(pl.len().alias("traced"))
    both = counts.join(replay_counts, on="name", how="full")
    return both.filter(pl.col("traced").ne_missing(pl.col("replayed"))).height == 0


def _missing_counter_notes(run: Run, kernels: pl.DataFrame) -> list[str]:
    incomplete = kernels.filter(~has_all_counters())
    if not incomplete.height:
        return []
    part = incomplete["duration_ns"].sum() / max(int(kernels["duration_ns"].sum()), 1)
    of_kernels = (
        f"{incomplete.height} of {many(kernels.height, 'kernel')}, {part:.1%} of their time"
    )
    lack = verb(incomplete.height, "lacks", "lack")
    return [f"{run.row.run}: {of_kernels}, {lack} a counter: sums cover the kernels that have it"]
