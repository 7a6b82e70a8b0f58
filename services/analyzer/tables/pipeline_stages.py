"""Stages of the pipeline: which of them limits the rate of a run whose queries overlap.

Preparing, predicting and post-processing of different queries run side by side; the slowest stage
sets the pace. A stage's rate alone is that of the time in which it was busy.
"""

from typing import Any

import numpy as np
import polars as pl

from mlscope.statistics import blocks_interval
from schemas.analysis import Table
from services.analyzer.building.best import capitalised, estimate_text, leader
from services.analyzer.building.charts import Axis, bars
from services.analyzer.building.margins import UNKNOWN, Margin, ratio, trimmed_margin
from services.analyzer.building.pipeline import (
    STAGES,
    busy_shares,
    has_overlapping_stages,
    stage_spans,
    stage_times,
)
from services.analyzer.building.rates import samples_rate
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    bool_column,
    estimate_columns,
    float_column,
    int_column,
    make_table,
    of_first_run,
    run_cells,
    run_warnings,
    text_column,
)
from services.analyzer.frames.evaluation import Frames, Run

_Cells = dict[str, Any]
NO_OVERLAP = "No run prepared samples while others were predicted."


def pipeline_stages(frames: Frames) -> Table:
    """Return a row for each stage of each run whose queries overlapped."""
    rows = [row for run in frames.measured for row in stage_rows(run)]
    verdict = _verdict(of_first_run(rows)) if rows else NO_OVERLAP
    return make_table(ANALYSIS, rows, verdict, run_warnings(frames))


def stage_rows(run: Run) -> list[_Cells]:
    """Return the rows of a run's stages in their order; none where its queries did not overlap."""
    together = samples_rate(run)
    if together is None or not has_overlapping_stages(run):
        return []
    rate = Margin(together.rate_hz, together.interval.low, together.interval.high)
    times = stage_times(run)
    rows = [
        {
            **run_cells(run.row),
            "agent": run.row.agent,
            "stage": stage,
            "queries": of_stage.height,
            **_busy_cells(run, stage, rate),
            **rate.cells("together"),
            **trimmed_margin(of_stage["spent_ns"].to_numpy()).cells("spent"),
            **trimmed_margin(of_stage["waited_ns"].to_numpy()).cells("waited"),
        }
        for stage in STAGES
        if (of_stage := times.filter(pl.col("stage") == stage)).height
    ]
    slowest = leader(rows, "busy_share")
    bound = min(row["alone"] for row in rows)
    in_doubt = [slowest.row["stage"], *(row["stage"] for row in slowest.rivals)]
    return [
        {
            **row,
            "bound": bound,
            "of_bound": rate.value / bound if rate.value else None,
            "is_bottleneck": None
            if slowest.rivals and row["stage"] in in_doubt
            else row is slowest.row,
        }
        for row in rows
    ]


def bottleneck_of(run: Run) -> str:
    """Return the stage that limits a run's rate; '' where none does beyond doubt."""
    return next((row["stage"] for row in stage_rows(run) if row["is_bottleneck"]), "")


def _busy_cells(run: Run, stage: str, together: Margin) -> _Cells:
    """Return the share of time in which a stage was busy, and its rate in that time.

    `together` is the rate of the run, which counts as independent of the share.
    """
    shares = busy_shares(run, stage)
    interval = blocks_interval(shares)
    low = None if interval.low is None else max(0.0, interval.low)
    high = None if interval.high is None else min(1.0, interval.high)
    busy = Margin(float(np.mean(shares)), low, high)
    spans = stage_spans(run)
    own_spans = spans.filter(pl.col("stage") == stage)
    summed = float((own_spans["end_ns"] - own_spans["start_ns"]).sum())
    # From the first operator of each block to its last.
    block_ns = pl.col("end_ns").max() - pl.col("start_ns").min()
    elapsed = int(spans.group_by("block").agg(block_ns.alias("ns"))["ns"].sum())
    return {
        **busy.cells("busy_share"),
        "at_once": summed / (busy.value * elapsed) if busy.value and elapsed else None,
        **(ratio(together, busy) if busy.value else UNKNOWN).cells("alone"),
    }


def _verdict(rows: list[_Cells]) -> str:
    slowest = leader(rows, "busy_share")
    row = slowest.row
    rates = ", ".join(
        f"{other['stage']} {estimate_text(other, 'alone', 'samples/s')}" for other in rows
    )
    together = f"{estimate_text(row, 'together', 'samples/s')} together"
    reached = f"{row['of_bound']:.0%} of the slowest stage's rate"
    question = f"which stage is the bottleneck of {row['run']}"
    doubt = slowest.doubt(question, lambda row: str(row["stage"]))
    certain = f"The bottleneck of {row['run']} is {row['stage']}: "
    return f"{f'{capitalised(doubt)}; ' if doubt else certain}{together}, {reached}; alone {rates}."


ANALYSIS = Analysis(
    name="pipeline_stages",
    title="Stages of the pipeline",
    source=(
        "Operational analysis (Denning and Buzen 1978): the rate of a pipeline is at most that of "
        "its slowest stage, and a stage's rate alone is that of the run divided by the share of "
        "time in which the stage was busy. The interval of that share is Student's t over up to "
        "20 stretches of the run; that of the rate alone combines both."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("agent", "The agent that ran it."),
        text_column("stage", "Stage: prepare, predict or post-process."),
        int_column("queries", "Queries in the stage."),
        *estimate_columns(
            "busy_share", "Share of the run in which at least one query was in the stage.", "1"
        ),
        float_column("at_once", "Operators that ran at a time while the stage was busy.", "1"),
        *estimate_columns(
            "alone", "Samples per second in the time in which the stage was busy.", "1/s"
        ),
        *estimate_columns("together", "Samples per second of the whole pipeline.", "1/s"),
        *estimate_columns("spent", "Trimmed mean of a query's time in the stage."),
        *estimate_columns("waited", "Trimmed mean of a query's wait before the stage."),
        float_column("bound", "The least rate alone of all stages, which bounds the run.", "1/s"),
        float_column("of_bound", "The rate of the whole pipeline divided by that bound.", "1"),
        bool_column(
            "is_bottleneck", "Whether the stage limits the run; null where intervals leave it open."
        ),
    ),
    compute=pipeline_stages,
    chart=bars(
        ("stage", "Stage"),
        Axis("busy_share", "Busy share", "share"),
        "alone",
        "together",
        "waited",
        color="is_bottleneck",
    ),
)
