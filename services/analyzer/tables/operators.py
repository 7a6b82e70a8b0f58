"""Operators: time in each step of the pipeline, a row an operator and run."""

from typing import Any

import polars as pl

from mlscope.statistics import trimmed_mean
from schemas.analysis import Table
from services.analyzer.frames import OPERATOR_LEVEL, PREDICT, ROOT_LEVEL, Frames, Run
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    estimate,
    in_percent,
    made,
    percentile_cells,
    ranked,
    real,
    run_cells,
    share,
    text,
    trace_doubts,
    trimmed_cells,
    whole,
)


def operators(frames: Frames) -> Table:
    """Return each operator's time a query and its share of the query, slowest first in a run."""
    rows = [row for run in frames.measured for row in _rows(run)]
    clean = [row for row in rows if row["level"] == "model"] or rows
    verdict = "No operator was traced."
    if clean:
        slowest = clean[0]
        verdict = (
            f"The slowest operator is {slowest['operator']}, in {slowest['run']}: "
            f"{in_percent(slowest['share_of_operators'])} of the operators' time."
        )
    deeper = sorted({row["run"] for row in rows if row["level"] != "model"})
    caveats = [f"{run}: {PREDICT} includes the cost of tracing layers" for run in deeper]
    return made(ANALYSIS, rows, verdict, [*trace_doubts(frames), *caveats])


def _rows(run: Run) -> list[dict[str, Any]]:
    spans = run.spans_at(OPERATOR_LEVEL)
    summed = spans.group_by("name", "query", maintain_order=True).agg(
        pl.col("duration_ns").sum(), pl.len().alias("calls")
    )
    roots = run.spans_at(ROOT_LEVEL)["duration_ns"].to_numpy()
    query_ns = trimmed_mean(roots) if len(roots) else None
    cells = []
    for (name,), part in summed.group_by("name", maintain_order=True):
        values = part["duration_ns"].to_numpy()
        cells.append(
            {
                **run_cells(run.row),
                "operator": str(name),
                "queries": part.height,
                "calls": int(part["calls"].sum()),
                **trimmed_cells("time", values),
                **percentile_cells("median", values, 0.5),
                "share_of_query": share(trimmed_mean(values), query_ns),
            }
        )
    return ranked(cells, "share_of_operators")


ANALYSIS = Analysis(
    name="operators",
    title="Time by operator",
    source="Sums of a query's spans at level model by name; trimmed mean over queries.",
    columns=(
        *RUN_COLUMNS,
        text("operator", "The step of the pipeline."),
        whole("queries", "Queries it served."),
        whole("calls", "Spans of it: once a sample or once a query."),
        *estimate("time", "Trimmed mean of its time a query."),
        *estimate("median", "Median of its time a query."),
        real("share_of_operators", "Share of the operators' summed trimmed means.", "1"),
        real("share_of_query", "Share of the query; operators overlap, so over 1 in sum.", "1"),
    ),
    compute=operators,
)
