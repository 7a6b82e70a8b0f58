"""Operators: time in each step of the pipeline, a row for each run and operator."""

from typing import Any

import polars as pl

from mlscope.load.load import AHEAD
from mlscope.statistics import trimmed_mean
from schemas.analysis import Table
from services.analyzer.building.best import capitalised, leader
from services.analyzer.building.charts import Axis, ranked
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    behind_others,
    counter_warnings,
    estimate_columns,
    float_column,
    format_share,
    int_column,
    make_table,
    overlap_warnings,
    percentile_cells,
    ranked_by_time,
    run_cells,
    share,
    text_column,
    trimmed_cells,
)
from services.analyzer.frames.evaluation import OPERATOR_LEVEL, PREDICT, ROOT_LEVEL, Frames


def operators(frames: Frames) -> Table:
    """Return each operator's time per query and share of the query, slowest first in a run."""
    rows = []
    for run in frames.measured:
        summed = (
            run.spans_at(OPERATOR_LEVEL)
            .group_by("name", "query", maintain_order=True)
            .agg(pl.col("duration_ns").sum(), pl.len().alias("calls"))
        )
        roots = run.spans_at(ROOT_LEVEL)["duration_ns"].to_numpy()
        query_ns = trimmed_mean(roots) if len(roots) else None
        of_run = []
        for (name,), part in summed.group_by("name", maintain_order=True):
            values = part["duration_ns"].to_numpy()
            cells = {
                **run_cells(run.row),
                "operator": str(name),
                "queries": part.height,
                "calls": int(part["calls"].sum()),
                **trimmed_cells("time", values),
                **percentile_cells("median", values, 0.5),
                "share_of_query": share(trimmed_mean(values), query_ns),
            }
            of_run.append(cells)
        rows += ranked_by_time(of_run, "share_of_operators")
    # Of a run that traced nothing deeper, where there is one.
    first = min(rows, key=lambda row: row["level"] != "model", default=None)
    verdict = "No operator was traced."
    if first is not None:
        behind = next(behind_others(row) for row in frames.runs if row.run == first["run"])
        verdict = _verdict([row for row in rows if row["run"] == first["run"]], behind)
    deeper = sorted({row["run"] for row in rows if row["level"] != "model"})
    caveats = [f"{run}: {PREDICT} includes the cost of tracing layers" for run in deeper]
    traced = {row["run"] for row in rows}
    caveats += [
        f"{run.run}: samples were prepared ahead; its other steps are in the table preparation"
        for run in frames.runs
        if run.run in traced and run.prepared == AHEAD
    ]
    return make_table(
        ANALYSIS, rows, verdict, [*counter_warnings(frames), *overlap_warnings(frames), *caveats]
    )


def _verdict(rows: list[dict[str, Any]], behind: str) -> str:
    """Return which of a run's operators is the slowest, where their intervals tell them apart.

    `behind` says what its calls waited for.
    """
    slowest = leader(rows, "time")
    row = slowest.row
    part = f"{format_share(row['share_of_operators'])} of the operators' time"
    place = ", ".join(filter(None, [row["run"], behind]))
    question = f"which operator is the slowest in {place}"
    if doubt := slowest.doubt(question, lambda row: str(row["operator"]), ("run",)):
        return f"{capitalised(doubt)}; {row['operator']} takes {part}."
    return f"The slowest operator is {row['operator']}, in {place}: {part}."


ANALYSIS = Analysis(
    name="operators",
    title="Time by operator",
    source="Sums of a query's spans at level model by name; trimmed mean over queries.",
    columns=(
        *RUN_COLUMNS,
        text_column("operator", "The step of the pipeline."),
        int_column("queries", "Queries measured."),
        int_column("calls", "Spans of the operator: one per sample or one per query."),
        *estimate_columns("time", "Trimmed mean of its time per query."),
        *estimate_columns("median", "Median of its time per query."),
        float_column(
            "share_of_operators", "Share of the sum of all operators' trimmed means.", "1"
        ),
        float_column(
            "share_of_query", "Share of the query; operators overlap, so the sum may exceed 1.", "1"
        ),
    ),
    compute=operators,
    chart=ranked(
        ("operator", "Operator"), Axis("time", "Time per query", "ns"), "calls", "share_of_query"
    ),
)
