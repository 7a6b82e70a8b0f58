"""Stages of the pipeline: which of them limits the rate of a run whose queries overlap.

Preparing, predicting and post-processing of different queries run side by side; the slowest stage
sets the pace.
"""

from typing import Any

import polars as pl

from mlscope.quantities import estimated, number
from schemas.analysis import Table
from services.analyzer.building.best import estimate_text
from services.analyzer.building.charts import Axis, bars
from services.analyzer.building.margins import (
    UNKNOWN,
    Margin,
    difference,
    margin_in,
    share_margin,
    trimmed_margin,
)
from services.analyzer.building.pipelines.stage_rates import (
    StageRate,
    bottleneck,
    is_slowest,
    slowdown,
    stage_rates,
)
from services.analyzer.building.pipelines.stages import (
    busy_shares,
    has_overlapping_stages,
    stage_times,
    summed_shares,
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
    share,
    text_column,
)
from services.analyzer.frames.evaluation import PREDICT, Frames, Run

_Cells = dict[str, Any]
NO_OVERLAP = "No run prepared samples while others were predicted."
LEAST_LONGER = 0.02
"""The share by which predict takes longer beside preparation, above which a caveat reports it."""
LEAST_REACHED = 0.8
"""The share of its bound that an open loop reaches where the bound limits it, not its own rate."""


def pipeline_stages(frames: Frames) -> Table:
    """Return a row for each stage of each run whose queries overlapped."""
    rows = [row for run in frames.measured for row in stage_rows(frames, run)]
    verdict = _verdict(of_first_run(rows)) if rows else NO_OVERLAP
    longer = [(row, difference(margin_in(row, "slowdown"), Margin(1.0, 1.0, 1.0))) for row in rows]
    slowdowns = [
        f"{row['run']}: predict takes {_percent_text(share_longer)} longer while samples are "
        f"prepared than in {row['slowdown_from']}"
        for row, share_longer in longer
        if (share_longer.low or 0.0) > LEAST_LONGER
    ]
    return make_table(ANALYSIS, rows, verdict, [*run_warnings(frames), *slowdowns])


def stage_rows(frames: Frames, run: Run) -> list[_Cells]:
    """Return the rows of a run's stages in their order; none where its queries did not overlap."""
    throughput = samples_rate(run)
    if throughput is None or not has_overlapping_stages(run):
        return []
    together = Margin(throughput.rate_hz, throughput.interval.low, throughput.interval.high)
    rates = stage_rates(frames, run, together)
    slowest = bottleneck(run, rates)
    load = margin_in(slowest.row, "load") if slowest else UNKNOWN
    is_limited = not run.is_open_loop or (load.value or 1.0) >= LEAST_REACHED
    return [
        {
            **run_cells(run.row),
            "agent": run.row.agent,
            **_stage_cells(frames, run, rate),
            **together.cells("together"),
            "bound": share(together.value, load.value),
            **load.cells("of_bound"),
            "is_bottleneck": None
            if slowest is None
            else is_limited and is_slowest(slowest, rate.stage),
        }
        for rate in rates
    ]


def bottleneck_of(frames: Frames, run: Run) -> str:
    """Return the stage that limits a run's rate, "prepare and predict" for one device of both.

    '' where the intervals allow none.
    """
    rows = stage_rows(frames, run)
    return " and ".join(row["stage"] for row in rows if row["is_bottleneck"])


def _stage_cells(frames: Frames, run: Run, rate: StageRate) -> _Cells:
    """Return the cells of one stage: how its servers worked, its rate alone, its queries' times."""
    busy = share_margin(busy_shares(run, rate.stage))
    summed = float(summed_shares(run, rate.stage).mean())
    slower, alone_run = slowdown(frames, run) if rate.stage == PREDICT else (UNKNOWN, "")
    of_stage = stage_times(run).filter(pl.col("stage") == rate.stage)
    return {
        "stage": rate.stage,
        "queries": of_stage.height,
        "servers": rate.servers,
        **rate.utilisation.cells("utilisation"),
        **busy.cells("busy_share"),
        "at_once": share(summed, busy.value),
        **rate.alone.cells("alone"),
        "alone_from": rate.alone_from,
        **slower.cells("slowdown"),
        "slowdown_from": alone_run,
        **trimmed_margin(of_stage["spent_ns"].to_numpy()).cells("spent"),
        **trimmed_margin(of_stage["waited_ns"].to_numpy()).cells("waited"),
    }


def _verdict(rows: list[_Cells]) -> str:
    run, bound = rows[0]["run"], rows[0]["bound"]
    together = f"{estimate_text(rows[0], 'together', 'samples/s')} together"
    if bound is None:
        return (
            f"{run} has {together}: its device prepares and predicts, so that its bound is known "
            "only beside a run with samples prepared ahead."
        )
    rates = ", ".join(f"{row['stage']} {estimate_text(row, 'alone', 'samples/s')}" for row in rows)
    in_doubt = [row["stage"] for row in rows if row["is_bottleneck"] is None]
    slowest = [row["stage"] for row in rows if row["is_bottleneck"]]
    subject = f"The bottleneck of {run} is {' and '.join(slowest)}:"
    if not slowest:
        subject = f"No stage limits {run}, whose queries come more slowly:"
    limit = "the bound"
    if len(slowest) > 1:
        subject, limit = f"{subject[:-1]}, by one device:", "the device's rate of both in turn"
    if in_doubt:
        doubt = f"which stage is the bottleneck of {run}: {' or '.join(in_doubt)}"
        subject = f"The intervals do not tell {doubt};"
    reached = f"{_percent_text(margin_in(rows[0], 'of_bound'))} of {limit}"
    return f"{subject} {together}, {reached}, {number(bound)} samples/s; alone {rates}."


def _percent_text(shares: Margin) -> str:
    """Return a known share with its interval for a sentence."""
    return estimated(shares.value or 0.0, shares.low, shares.high, "share")


ANALYSIS = Analysis(
    name="pipeline_stages",
    title="Stages of the pipeline",
    source=(
        "Operational analysis (Denning and Buzen 1978), the utilisation law: a stage's rate alone "
        "is the run's divided by the utilisation of its servers, which is the summed time of its "
        "operators over elapsed time and servers; overlapping calls of the model count once. "
        "Rates measured alone come first: of the model, in a run with samples ahead that is alike "
        "otherwise; of one process or device that prepares, before the clock of that run. The "
        "bound is the least rate alone. Where one device prepares and predicts it is 1 / (1 / "
        "prepare + 1 / predict), which a run exceeds where the host's part of decoding overlaps. "
        "Processes also read samples and fill the model's inputs, which is part of their "
        "utilisation and of no step. Intervals: Student's t over up to "
        "20 stretches of the run for shares of time, Zou and Donner's for ratios."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("agent", "The agent that ran it."),
        text_column("stage", "Stage: prepare, predict or post-process."),
        int_column("queries", "Queries in the stage."),
        int_column(
            "servers",
            "Samples that can be prepared at a time: preparing processes, or threads with the one "
            "that predicts; else 1.",
        ),
        *estimate_columns("utilisation", "Share of the run in which its servers worked.", "1"),
        *estimate_columns(
            "busy_share", "Share of the run in which at least one query was in the stage.", "1"
        ),
        float_column("at_once", "Operators that ran at a time while the stage was busy.", "1"),
        *estimate_columns("alone", "Samples per second of the stage alone, all servers.", "1/s"),
        text_column(
            "alone_from",
            "Source of `alone`: this run, by utilisation; another run that measured it alone; or "
            "preparation before that run's clock. '' if unknown.",
        ),
        *estimate_columns(
            "slowdown",
            "Time of predict in this run divided by its time when it runs alone; null if no run "
            "has it alone, or if calls overlap.",
            "1",
        ),
        text_column("slowdown_from", "The run from which `slowdown` takes predict alone."),
        *estimate_columns("together", "Samples per second of the whole pipeline.", "1/s"),
        *estimate_columns("spent", "Trimmed mean of a query's time in the stage."),
        *estimate_columns("waited", "Trimmed mean of a query's wait before the stage."),
        float_column(
            "bound",
            "The least rate alone of all stages, which bounds the run; of a device that prepares "
            "and predicts, its rate of both in turn. Null where a rate is unknown.",
            "1/s",
        ),
        *estimate_columns("of_bound", "The rate of the whole pipeline divided by that bound.", "1"),
        bool_column(
            "is_bottleneck",
            "Whether the stage limits the run; null where intervals leave it open. No stage limits "
            f"an open loop below {LEAST_REACHED:.0%} of the bound.",
        ),
    ),
    compute=pipeline_stages,
    chart=bars(
        ("stage", "Stage"),
        Axis("utilisation", "Utilisation", "share"),
        "alone",
        "together",
        "waited",
        color="is_bottleneck",
    ),
)
