"""Preparation: what one sample costs before and after the model, apart from the timed queries."""

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from mlscope.load.load import AHEAD
from schemas.analysis import Table
from services.analyzer.building.best import estimate_text, leader
from services.analyzer.building.charts import Axis, bars
from services.analyzer.building.margins import mean_margin, per_second
from services.analyzer.building.table import (
    PREPARED_COLUMN,
    RUN_COLUMNS,
    Analysis,
    counter_warnings,
    estimate_columns,
    float_column,
    format_share,
    int_column,
    make_table,
    run_cells,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import OPERATOR_LEVEL, PREDICT, ROOT_LEVEL, Frames, Run

PREPARE, ANSWER = "prepare", "answer"
"""The root spans of a batch that is prepared ahead: its preparation, and its untimed answer."""
BEFORE, AFTER = "before", "after"
ALL, REST, STEPS = "all", "rest", "steps"
"""A whole part; what it has above its steps; and their sum, where only they were timed."""
_PARTS = (BEFORE, AFTER)


def preparation(frames: Frames) -> Table:
    """Return a row for each run and step outside of predict, the sum of a part's steps first."""
    rows = [row for run in frames.measured for row in _run_rows(run)]
    shared = [row["run"] for row in rows if row["prepared"] != AHEAD]
    caveats = [
        f"{run}: its steps ran beside the model, and may have waited for a core that it used"
        for run in dict.fromkeys(shared)
    ]
    return make_table(ANALYSIS, rows, _verdict(rows), [*counter_warnings(frames), *caveats])


def _verdict(rows: list[dict[str, Any]]) -> str:
    before = [row for row in rows if row["part"] == BEFORE]
    if not before:
        return "No preparation of samples was traced."
    # Steps that ran alone say what preparation costs.
    run = next((row["run"] for row in before if row["prepared"] == AHEAD), before[0]["run"])
    total, *steps = (row for row in before if row["run"] == run)
    slowest = leader([row for row in steps if row["step"] != REST], "time")
    share_text = f"{format_share(slowest.row['share'])} of the time"
    step = f"the slowest step is {slowest.row['step']}, {share_text}"
    step = slowest.doubt("which step is the slowest", lambda row: str(row["step"])) or step
    mode = "while it runs: the steps alone, in one process, prepare"
    if total["prepared"] == AHEAD:
        mode = "ahead of the clock: one process prepares"
    return (
        f"In {run} samples are prepared {mode} "
        f"{estimate_text(total, 'samples_per_s', 'samples/s')}; {step}."
    )


def _run_rows(run: Run) -> Iterator[dict[str, Any]]:
    is_ahead = run.row.prepared == AHEAD
    times = _ahead_times(run) if is_ahead else _streamed_times(run)
    for part in _PARTS:
        of_part = times.filter(pl.col("part") == part)
        steps = of_part.filter(pl.col("step") != ALL)
        totals = of_part.filter(pl.col("step") == ALL)
        # Reading streamed samples and filling the slot with them is not timed.
        total = ALL if is_ahead or part == AFTER else STEPS
        if not totals.height:
            totals = steps.group_by("batch", "part", maintain_order=True).agg(
                pl.col("time").sum(), step=pl.lit(total)
            )
        elif steps.height:
            # What each batch's time has above its steps: reading, and putting into the slot.
            spent = steps.group_by("batch", "part", maintain_order=True).agg(
                pl.col("time").sum().alias("spent")
            )
            above = totals.join(spent, on=["batch", "part"], maintain_order="left").select(
                "batch", "part", step=pl.lit(REST), time=pl.col("time") - pl.col("spent")
            )
            steps = pl.concat([steps, above])
        if steps.height:
            yield from _part_rows(run, part, (total, totals), steps)


def _part_rows(
    run: Run, part: str, named_totals: tuple[str, pl.DataFrame], steps: pl.DataFrame
) -> Iterator[dict[str, Any]]:
    """Yield the row of a `part` as a whole, by `named_totals`, then its steps' by time."""
    name, totals = named_totals
    total = mean_margin(totals["time"].to_numpy())
    margins = [(name, total, totals.height)]
    by_step = [
        (str(step), mean_margin(of_step["time"].to_numpy()), of_step.height)
        for (step,), of_step in steps.group_by("step", maintain_order=True)
    ]
    margins += sorted(by_step, key=lambda row: -(row[1].value or 0.0))
    for step, margin, batches in margins:
        yield {
            **run_cells(run.row),
            "prepared": run.row.prepared,
            "part": part,
            "step": step,
            "batches": batches,
            **margin.cells("time"),
            **per_second(margin).cells("samples_per_s"),
            "share": share(margin.value, total.value),
        }


def _ahead_times(run: Run) -> pl.DataFrame:
    """Return the times per sample (ns) of the batches that were prepared before the clock."""
    untimed = run.spans.filter(pl.col("block") < 0)
    parts = {PREPARE: BEFORE, ANSWER: AFTER}
    roots = untimed.filter((pl.col("level") == ROOT_LEVEL) & pl.col("name").is_in(list(parts)))
    roots = roots.select(
        batch="span", part=pl.col("name").replace_strict(parts), time="duration_ns"
    )
    steps = untimed.filter((pl.col("level") == OPERATOR_LEVEL) & (pl.col("name") != PREDICT))
    by_step = steps.join(roots.select("batch", "part"), left_on="parent", right_on="batch")
    summed = by_step.group_by("parent", "part", "name", maintain_order=True).agg(
        pl.col("duration_ns").sum()
    )
    totals = roots.filter(pl.col("part") == BEFORE).with_columns(step=pl.lit(ALL))
    return _per_sample(
        [summed.rename({"parent": "batch", "name": "step", "duration_ns": "time"}), totals],
        run.row.batch_size,
    )


def _streamed_times(run: Run) -> pl.DataFrame:
    """Return the times per sample (ns) of steps in answered queries."""
    spans = run.spans_at(OPERATOR_LEVEL)
    predicted = spans.filter(pl.col("name") == PREDICT).select("query", predict_ns="start_ns")
    steps = spans.filter(pl.col("name") != PREDICT).join(predicted, on="query")
    is_before = pl.col("start_ns") < pl.col("predict_ns")
    parted = steps.with_columns(
        part=pl.when(is_before).then(pl.lit(BEFORE)).otherwise(pl.lit(AFTER))
    )
    summed = parted.group_by("query", "part", "name", maintain_order=True).agg(
        pl.col("duration_ns").sum()
    )
    renamed = summed.rename({"query": "batch", "name": "step", "duration_ns": "time"})
    return _per_sample([renamed], run.row.batch_size)


def _per_sample(frames: Iterable[pl.DataFrame], batch_size: int) -> pl.DataFrame:
    columns = (
        pl.col("batch").cast(pl.Int64),
        pl.col("part").cast(pl.String),
        pl.col("step").cast(pl.String),
        pl.col("time").cast(pl.Float64) / batch_size,
    )
    return pl.concat([frame.select(columns) for frame in frames])


ANALYSIS = Analysis(
    name="preparation",
    title="Preparation of samples",
    source=(
        "Spans at level model of the steps before and after predict, summed by batch and divided "
        "by its size; means over batches with Student's t. Batches prepared ahead are measured by "
        "one thread before the clock starts; streamed ones within their queries."
    ),
    columns=(
        *RUN_COLUMNS,
        PREPARED_COLUMN,
        text_column("part", "Whether the step comes before or after the model."),
        text_column(
            "step",
            "The step; all: the whole part; rest: reading samples and filling the model's inputs; "
            "steps: the sum of the steps, of streamed samples, where the rest is not timed.",
        ),
        int_column("batches", "Batches measured."),
        *estimate_columns("time", "Mean time for one sample."),
        *estimate_columns(
            "samples_per_s", "Samples that one process prepares per second in that time.", "1/s"
        ),
        float_column("share", "Share of the part's time.", "1"),
    ),
    compute=preparation,
    chart=bars(
        ("step", "Step"),
        Axis("time", "Time for one sample", "ns"),
        "part",
        "share",
        color="part",
        beside="part",
    ),
)
