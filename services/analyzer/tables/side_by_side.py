"""Layers that ran side by side: what was started from which of them is ambiguous."""

from collections.abc import Iterator, Sequence

import polars as pl

from services.analyzer.derived import once
from services.analyzer.frames import LAYER_LEVEL, Run
from services.analyzer.tables.stacks import SERIALISED


def are_side_by_side(run: Run) -> bool:
    """Say whether layers of a query overlap on different threads: one begins before another ended.

    Told by neighbours in the order of their starts.
    """
    return once(run, _are_side_by_side)


def _are_side_by_side(run: Run) -> bool:
    end = (pl.col("start_ns") + pl.col("duration_ns")).shift(1).over("query")
    other = pl.col("thread") != pl.col("thread").shift(1).over("query")
    spans = run.spans_at(LAYER_LEVEL).sort("query", "start_ns")
    return spans.filter(other & (pl.col("start_ns") < end)).height > 0


def ambiguous_parents(runs: Sequence[Run]) -> Iterator[str]:
    """Yield which runs have layers side by side, and how to tell them apart."""
    serialised = {
        (run.row.agent, run.row.batch_size) for run in runs if run.row.variant == SERIALISED
    }
    for run in runs:
        if run.row.variant != SERIALISED and are_side_by_side(run):
            is_told = (run.row.agent, run.row.batch_size) in serialised
            remedy = "the serialised runs tell" if is_told else "request it serialised, which tells"
            yield (
                f"{run.row.run}: layers of several threads overlap, so that parents are "
                f"ambiguous: {remedy} what lies in which"
            )
