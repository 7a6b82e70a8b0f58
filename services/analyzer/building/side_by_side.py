"""Layers that ran side by side: which of them launched a call is ambiguous."""

from collections.abc import Iterator, Sequence

import polars as pl

from services.analyzer.building.stacks import SERIALISED
from services.analyzer.frames.derived import once_a_run
from services.analyzer.frames.evaluation import LAYER_LEVEL, Run


@once_a_run
def are_side_by_side(run: Run) -> bool:
    """Return whether layers of a query overlap on different threads.

    Layers that follow each other in the order of their starts are compared.
    """
    end = (pl.col("start_ns") + pl.col("duration_ns")).shift(1).over("query")
    is_other_thread = pl.col("thread") != pl.col("thread").shift(1).over("query")
    spans = run.spans_at(LAYER_LEVEL).sort("query", "start_ns")
    return spans.filter(is_other_thread & (pl.col("start_ns") < end)).height > 0


def ambiguous_parents(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a caveat for each run with layers side by side, and its remedy."""
    serialised = {
        (run.row.agent, run.row.batch_size) for run in runs if run.row.variant == SERIALISED
    }
    for run in runs:
        if run.row.variant != SERIALISED and are_side_by_side(run):
            remedy = (
                "see the serialised runs"
                if (run.row.agent, run.row.batch_size) in serialised
                else "request serialised runs"
            )
            yield (
                f"{run.row.run}: layers of several threads overlap, so parents are ambiguous: "
                f"{remedy}, which show the parents"
            )
