"""Cold start: opening, the first run and its copies, against the same model warm."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from mlscope.client.quantities import number
from mlscope.load.scenarios import COLD
from schemas.analysis import Table
from schemas.batch import SpanKind
from services.analyzer.frames import LAYER_LEVEL, OPERATOR_LEVEL, PREDICT, Frames, Run
from services.analyzer.tables.charts import bars
from services.analyzer.tables.kernel_frames import device_work
from services.analyzer.tables.margins import (
    UNKNOWN,
    Margin,
    difference,
    each_trimmed,
    trimmed_margin,
)
from services.analyzer.tables.openings import Openings, alike, layer_times, openings_of
from services.analyzer.tables.stacks import Stack, stacks_of
from services.analyzer.tables.table import (
    Analysis,
    doubts,
    estimate,
    in_time,
    made,
    real,
    share,
    text,
    whole,
)

OPEN = "open"


def cold_start(frames: Frames) -> Table:
    """Return a row a part of a cold start: what it took, and what it takes warm."""
    rows: list[dict[str, Any]] = []
    told = set()
    for cold, warm in openings_of(frames):
        told.add((cold.agent, cold.batch_size))
        rows += _measured(cold, warm)
    stacks = [each for each in stacks_of(frames, ("", COLD)) if each.scenario != COLD]
    first = {(each.agent, each.batch_size): each for each in reversed(stacks)}
    for key, stack in sorted(first.items()):
        if key not in told:
            rows += _noted(stack)
    return made(ANALYSIS, rows, _verdict(rows), doubts(frames))


def _verdict(rows: list[dict[str, Any]]) -> str:
    found = {row["part"]: row for row in reversed(rows) if row["part"] in (OPEN, PREDICT)}
    first = found.get(PREDICT)
    if first is None:
        return "No run says what a cold start took."
    opened = f"Opening takes {in_time(found[OPEN]['cold'])}, the" if OPEN in found else "The"
    if first["times"] is None:
        return f"{opened} first run {in_time(first['cold'])} ({first['run']})."
    return (
        f"{opened} first run {in_time(first['cold'])}, {number(first['times'], 3)} times a warm "
        f"one ({first['run']})."
    )


def _measured(cold: Openings, warm: Openings) -> Iterator[dict[str, Any]]:
    """Yield the parts of cold runs: their operators, copies to the device, and layers.

    Each is set against the same level warm: deeper ones hold the cost of tracing.
    """
    level = cold.shallowest(OPERATOR_LEVEL)
    if level is not None:
        runs = cold.at(level)
        spans = pl.concat(run.spans_at(OPERATOR_LEVEL) for run in runs)
        for name in spans["name"].unique(maintain_order=True):
            first, again = (_operator_ns(each, name) for each in (runs, warm.at(level)))
            margins = trimmed_margin(first), trimmed_margin(again)
            yield _cells(cold, runs[0], (name, ""), len(first), margins)
    deepest = max(cold.by_level)
    copies, again = (_copies_of(each.at(deepest)) for each in (cold, warm))
    if copies:
        margins = trimmed_margin(copies), trimmed_margin(again)
        yield _cells(cold, cold.at(deepest)[0], ("copies", ""), len(copies), margins)
    yield from _layer_rows(cold, warm)


def _operator_ns(runs: Sequence[Run], name: str) -> list[float]:
    return [float(ns) for run in runs for ns in run.operator_ns(name)]


def _layer_rows(cold: Openings, warm: Openings) -> Iterator[dict[str, Any]]:
    level = cold.shallowest(LAYER_LEVEL)
    if level is None:
        return
    times = layer_times(cold.at(level))
    again = each_trimmed(layer_times(warm.at(level)))
    same = alike(times, again)
    for key, margin in each_trimmed(times).items():
        margins = margin, again[same[key]] if key in same else UNKNOWN
        yield _cells(cold, cold.at(level)[0], ("layer", key[1]), len(times[key]), margins)


def _copies_of(runs: Sequence[Run]) -> list[float]:
    return [ns for run in runs if (ns := _copies_ns(run)) is not None]


def _copies_ns(run: Run) -> float | None:
    """Return the time of copies a query; None where no device work was traced."""
    work = device_work(run)
    if not work.height:
        return None
    copied = work.filter(pl.col("kind") == int(SpanKind.COPY))["duration_ns"].sum()
    return float(copied) / work["query"].n_unique()


def _noted(stack: Stack) -> Iterator[dict[str, Any]]:
    """Yield what a warm run's conditions say of how it was opened."""
    run = stack.timed
    again = trimmed_margin(stack.model.operator_ns(PREDICT)) if stack.model else UNKNOWN
    for part, name, warm in ((OPEN, "load_ns", UNKNOWN), (PREDICT, "first_run_ns", again)):
        told = run.row.conditions.get(name)
        if isinstance(told, int | float) and told > 0:
            yield _cells(stack, run, (part, ""), 1, (Margin(float(told)), warm))


def _cells(
    stack: Stack | Openings,
    run: Run,
    part: tuple[str, str],
    count: int,
    margins: tuple[Margin, Margin],
) -> dict[str, Any]:
    """Return a row of a part and its layer; `margins` are cold and warm, the count is cold's."""
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
        "times": share(cold.value, warm.value),
    }


ANALYSIS = Analysis(
    name="cold_start",
    title="Cold start against warm",
    source=(
        "Of runs of the scenario `cold`: trimmed mean over openings, beside that over queries "
        "warm, with intervals by Student's t (none of one opening; an extra's by both's); without "
        "such a run what opening and the first run took as the agent noted it, once: no interval."
    ),
    columns=(
        text("agent", "Where it ran."),
        whole("batch_size", "Samples in a query."),
        text("run", "The first of the runs that the cold time is from."),
        text("part", "open, predict or another operator; copies; layer."),
        text("layer", "The layer's name."),
        whole("count", "Openings it is over."),
        *estimate("cold", "Trimmed mean of its time cold."),
        *estimate("warm", "Trimmed mean of the same warm; null where it is not there."),
        *estimate("extra", "Cold less warm."),
        real("times", "Cold over warm.", "1"),
    ),
    compute=cold_start,
    chart=bars(("layer", "Layer"), ("extra", "Cold less warm (ns)"), "part", "times"),
)
