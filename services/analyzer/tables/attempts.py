"""Attempts: those that do not count, kept and marked."""

from mlscope.counts import many, verb
from schemas.analysis import Table
from services.analyzer.frames import Frames
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    made,
    run_cells,
    text,
    truth,
    whole,
)


def attempts(frames: Frames) -> Table:
    """Return the attempts that ended badly or were repeated, and why."""
    counted = {row.run_key for row in frames.runs}
    bad = [
        row
        for row in frames.attempts
        if row.run_key not in counted or row.outcome != "completed" or row.interrupted
    ]
    rows = [
        {
            **run_cells(row),
            "attempt": row.attempt,
            "agent": row.agent,
            "counts": row.run_key in counted,
            "outcome": row.outcome,
            "state": row.state,
            "error": row.error,
            "cause": row.interrupted or row.message,
            "queries": row.queries,
            "spans": row.spans,
        }
        for row in bad
    ]
    tried = many(len(frames.attempts), "attempt")
    were = verb(len(bad), "was", "were")
    verdict = f"{len(bad)} of {tried} ended badly or {were} repeated."
    if not bad:
        every = f"All {tried}" if len(frames.attempts) != 1 else "The one attempt"
        verdict = f"{every} went through at the first try."
    return made(ANALYSIS, rows, verdict, frames.caveats)


ANALYSIS = Analysis(
    name="attempts",
    title="Attempts that ended badly or were repeated",
    source="The collector's table `run`.",
    columns=(
        *RUN_COLUMNS,
        whole("attempt", "Which attempt."),
        text("agent", "Where it ran."),
        truth("counts", "Whether the other tables count it."),
        text("outcome", "What ended it: completed, failed or interrupted."),
        text("state", "What its rows are: recorded, incomplete, interrupted."),
        text("error", "The kind of failure."),
        text("cause", "Why, in words."),
        whole("queries", "Queries announced."),
        whole("spans", "Spans announced."),
    ),
    compute=attempts,
)
