"""Cold start: opening, the first run and its copies, compared with the warm model."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from mlscope.counts import many
from mlscope.load.scenarios import COLD
from mlscope.load.stop_rule import RESULT_RULE
from mlscope.quantities import number
from schemas.analysis import Table
from services.analyzer.building.best import estimate_text
from services.analyzer.building.charts import Axis, dumbbells, with_transforms
from services.analyzer.building.cold_starts.openings import (
    Openings,
    layer_times,
    matching_layers,
    openings_of,
)
from services.analyzer.building.margins import (
    UNKNOWN,
    Margin,
    difference,
    ratio,
    trimmed_margin,
    trimmed_margins_by_key,
)
from services.analyzer.building.stacks import Stack, stacks_of
from services.analyzer.building.table import (
    Analysis,
    estimate_columns,
    format_time,
    int_column,
    make_table,
    run_warnings,
    text_column,
)
from services.analyzer.frames.evaluation import LAYER_LEVEL, OPERATOR_LEVEL, PREDICT, Frames, Run
from services.analyzer.frames.kernels import answered_work, copies_of

OPEN = "open"


def cold_start(frames: Frames) -> Table:
    """Return a row for each part of a cold start: its time cold, and its time warm."""
    rows: list[dict[str, Any]] = []
    measured = set()
    for cold, warm in openings_of(frames):
        measured.add((cold.agent, cold.batch_size))
        rows += _measured_rows(cold, warm)
    stacks = reversed(list(stacks_of(frames, ("", COLD))))
    first = {(s.agent, s.batch_size): s for s in stacks if s.scenario != COLD}
    for key in sorted(first.keys() - measured):
        rows += _reported_rows(first[key])
    by_part = {row["part"]: row for row in reversed(rows) if row["part"] in (OPEN, PREDICT)}
    results = (row for row in rows if row["part"] in (OPEN, PREDICT))
    notes = [
        _precision_note(row) for row in results if (row["agent"], row["batch_size"]) in measured
    ]
    return make_table(
        ANALYSIS, rows, _verdict(by_part), [*run_warnings(frames), *filter(None, notes)]
    )


def _precision_note(row: Mapping[str, Any]) -> str:
    """Return a caveat of a result that is known less well than other results are by default."""
    goal, cold, low, high = RESULT_RULE.interval / 2, row["cold"], row["cold_low"], row["cold_high"]
    name = f"{row['run']}: its {'time to open' if row['part'] == OPEN else 'first run'}"
    count = many(row["count"], "opening")
    advice = f"the goal is within {goal:.0%}: a larger `queries` or budget makes it more certain"
    if low is None or high is None:
        return f"{name} has no interval, with {count}; {advice}"
    reach = max(high - cold, cold - low) / cold
    if reach <= goal:
        return ""
    return f"{name} is known to within {reach:.0%} (95% interval), with {count}; {advice}"


def _verdict(by_part: Mapping[str, dict[str, Any]]) -> str:
    if PREDICT not in by_part:
        return "No run reports the time of a cold start."
    predict = by_part[PREDICT]
    opening = "The"
    if OPEN in by_part:
        row = by_part[OPEN]
        once = row["count"] == 1
        duration = format_time(row["cold"]) if once else estimate_text(row, "cold")
        opening = f"Opening takes {duration}, the"
    if predict["count"] == 1:
        ratio_text = "" if predict["times"] is None else number(predict["times"])
        cold = f"{format_time(predict['cold'])}, measured once"
    else:
        ratio_text = "" if predict["times"] is None else estimate_text(predict, "times", "")
        cold = estimate_text(predict, "cold")
    times = f", {ratio_text} times a warm one" if ratio_text else ""
    return f"{opening} first run {cold}{times} ({predict['run']})."


def _measured_rows(cold: Openings, warm: Openings) -> Iterator[dict[str, Any]]:
    """Yield the parts of `cold` runs: their operators, copies to the device, and layers.

    Each is compared with the `warm` runs of the same level, since deeper tracing costs time.
    """
    level = cold.shallowest(OPERATOR_LEVEL)
    if level is not None:
        runs = cold.at(level)
        spans = pl.concat(run.spans_at(OPERATOR_LEVEL) for run in runs)
        for name in spans["name"].unique(maintain_order=True):
            first, later = (
                [float(ns) for run in openings.at(level) for ns in run.operator_ns(name)]
                for openings in (cold, warm)
            )
            margins = trimmed_margin(first), trimmed_margin(later)
            yield _cells(cold, runs[0], (name, ""), len(first), margins)
    deepest = max(cold.by_level)
    copies, later = (
        [ns for run in openings.at(deepest) if (ns := _copies_ns(run)) is not None]
        for openings in (cold, warm)
    )
    if copies:
        margins = trimmed_margin(copies), trimmed_margin(later)
        yield _cells(cold, cold.at(deepest)[0], ("copies", ""), len(copies), margins)
    level = cold.shallowest(LAYER_LEVEL)
    if level is None:
        return
    times = layer_times(cold.at(level))
    warm_margins = trimmed_margins_by_key(layer_times(warm.at(level)))
    matching = matching_layers(times, warm_margins)
    for layer, margin in trimmed_margins_by_key(times).items():
        margins = margin, warm_margins[matching[layer]] if layer in matching else UNKNOWN
        yield _cells(cold, cold.at(level)[0], ("layer", layer[1]), len(times[layer]), margins)


def _copies_ns(run: Run) -> float | None:
    """Return the time of copies per query; None where no device work was traced."""
    work = answered_work(run)
    if not work.height:
        return None
    return float(copies_of(run)["duration_ns"].sum()) / work["query"].n_unique()


def _reported_rows(stack: Stack) -> Iterator[dict[str, Any]]:
    """Yield the times of opening and the first run that a warm run's conditions report."""
    run = stack.timed
    predict = trimmed_margin(stack.model.operator_ns(PREDICT)) if stack.model else UNKNOWN
    for part, name, warm in ((OPEN, "load_ns", UNKNOWN), (PREDICT, "first_run_ns", predict)):
        value = run.row.conditions.get(name)
        if isinstance(value, int | float) and value > 0:
            yield _cells(stack, run, (part, ""), 1, (Margin(float(value)), warm))


def _cells(
    stack: Stack | Openings,
    run: Run,
    part: tuple[str, str],
    count: int,
    margins: tuple[Margin, Margin],
) -> dict[str, Any]:
    """Return the row of a `part` and its layer; `margins` are cold and warm, `count` is of cold."""
    cold, warm = margins
    return {
        "agent": stack.agent,
        "batch_size": stack.batch_size,
        "run": run.row.run,
        "part": part[0],
        "layer": part[1],
        "count": count,
        **cold.cells("cold"),
        **warm.cells("warm"),
        **difference(cold, warm).cells("extra"),
        **ratio(cold, warm).cells("times"),
    }


_CHART = with_transforms(
    dumbbells(
        ("place", "Part"),
        (("warm", "warm"), ("cold", "cold")),
        Axis("", "Time", "ns"),
        "part",
        "times",
    ),
    {"calculate": "datum.layer ? datum.layer : datum.part", "as": "place"},
)

ANALYSIS = Analysis(
    name="cold_start",
    title="Cold start against warm",
    source=(
        "From runs of the scenario `cold`: trimmed mean over openings, and over warm queries, with "
        "intervals by Student's t (none for one opening; that of extra combines both). Without "
        "such a run: the times of opening and the first run that the agent measured once."
    ),
    columns=(
        text_column("agent", "The agent that ran it."),
        int_column("batch_size", "Samples per query."),
        text_column("run", "The first run that the cold time is from."),
        text_column("part", "Part of the start: open, predict or another operator, copies, layer."),
        text_column("layer", "Name of the layer; '' for other parts."),
        int_column("count", "Openings measured."),
        *estimate_columns("cold", "Trimmed mean of its time in cold runs."),
        *estimate_columns("warm", "Trimmed mean of its time in warm runs; null without any."),
        *estimate_columns("extra", "Cold minus warm."),
        *estimate_columns("times", "Cold divided by warm.", "1"),
    ),
    compute=cold_start,
    chart=_CHART,
)
