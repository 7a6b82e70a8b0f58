"""Attempts that failed, were interrupted, or do not count."""

from mlscope.counts import many, verb
from schemas.analysis import Table
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    bool_column,
    int_column,
    make_table,
    run_cells,
    text_column,
)
from services.analyzer.frames.evaluation import Frames


def attempts(frames: Frames) -> Table:
    """Return the attempts that failed or were repeated, with the cause."""
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
    attempted = many(len(frames.attempts), "attempt")
    were = verb(len(bad), "was", "were")
    verdict = f"{len(bad)} of {attempted} failed or {were} repeated."
    if not bad:
        subject = f"All {attempted}" if len(frames.attempts) != 1 else "The only attempt"
        verdict = f"{subject} succeeded on the first try."
    return make_table(ANALYSIS, rows, verdict, frames.caveats)


ANALYSIS = Analysis(
    name="attempts",
    title="Attempts that failed or were repeated",
    source="The collector's table `run`.",
    columns=(
        *RUN_COLUMNS,
        int_column("attempt", "Number of the attempt."),
        text_column("agent", "The agent that ran it."),
        bool_column("counts", "Whether the other tables use it."),
        text_column("outcome", "Outcome: completed, failed or interrupted."),
        text_column("state", "State of its rows: recorded, incomplete or interrupted."),
        text_column("error", "The kind of failure."),
        text_column("cause", "Cause of the failure."),
        int_column("queries", "Queries announced."),
        int_column("spans", "Spans announced."),
    ),
    compute=attempts,
)
