"""Cold start: opening, the first run and its copies, against the same model warm."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from mlscope.load.scenarios import COLD
from mlscope.statistics import trimmed_mean
from schemas.analysis import Table
from schemas.batch import SpanKind
from services.analyzer.frames import OPERATOR_LEVEL, PREDICT, Frames, Ns, Run
from services.analyzer.tables.charts import bars
from services.analyzer.tables.kernel_frames import device_work
from services.analyzer.tables.layer_frames import layers_of
from services.analyzer.tables.stacks import Stack, stacks_of
from services.analyzer.tables.table import (
    Analysis,
    doubts,
    in_ms,
    made,
    real,
    share,
    text,
    whole,
)

OPEN = "open"


def cold_start(frames: Frames) -> Table:
    """Return a row a part of a cold start: what it took, and what it takes warm."""
    stacks = list(stacks_of(frames, ("", COLD)))
    warm = {(s.agent, s.batch_size): s for s in reversed(stacks) if s.scenario != COLD}
    rows: list[dict[str, Any]] = []
    for stack in stacks:
        if stack.scenario == COLD:
            rows += _measured(stack, warm.get((stack.agent, stack.batch_size)))
    told = {(row["agent"], row["batch_size"]) for row in rows}
    for key, stack in sorted(warm.items()):
        if key not in told:
            rows += _noted(stack)
    return made(ANALYSIS, rows, _verdict(rows), doubts(frames))


def _verdict(rows: list[dict[str, Any]]) -> str:
    found = {row["part"]: row for row in reversed(rows) if row["part"] in (OPEN, PREDICT)}
    first = found.get(PREDICT)
    if first is None:
        return "No run says what a cold start took."
    opened = f"Opening takes {in_ms(found[OPEN]['cold'])}, the" if OPEN in found else "The"
    if first["times"] is None:
        return f"{opened} first run {in_ms(first['cold'])} ({first['run']})."
    return (
        f"{opened} first run {in_ms(first['cold'])}, {first['times']:.3g} times a warm one "
        f"({first['run']})."
    )


def _measured(cold: Stack, warm: Stack | None) -> Iterator[dict[str, Any]]:
    """Yield the parts of cold runs: their operators, copies to the device, and layers."""
    run = cold.timed
    deepest = cold.by_level[max(cold.by_level)]
    spans = deepest.spans_at(OPERATOR_LEVEL)
    for (name,), part in spans.group_by("name", maintain_order=True):
        times = part.group_by("query").agg(pl.col("duration_ns").sum())["duration_ns"].to_numpy()
        known: Sequence[int] | Ns = warm.model.operator_ns(str(name)) if warm and warm.model else ()
        again = trimmed_mean(known) if len(known) else None
        yield _cells(cold, deepest, str(name), "", len(times), float(times.mean()), again)
    copies = _copies_ns(deepest)
    if copies is not None:
        again = _copies_ns(warm.traced) if warm and warm.traced else None
        yield _cells(cold, deepest, "copies", "", run.answered.height, copies, again)
    yield from _layer_rows(cold, warm)


def _layer_rows(cold: Stack, warm: Stack | None) -> Iterator[dict[str, Any]]:
    if cold.layered is None:
        return
    again: dict[tuple[int, str], float] = {}
    if warm is not None and warm.layered is not None:
        known = layers_of(warm.layered).drop_nulls("time")
        again = {(n, name): t for n, name, t in known.select("node", "name", "time").iter_rows()}
    for row in layers_of(cold.layered).drop_nulls("time").to_dicts():
        warmed = again.get((row["node"], row["name"]))
        times = row["queries"], row["time"], warmed
        yield _cells(cold, cold.layered, "layer", row["name"], *times)


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
    values: Sequence[int] | Ns = stack.model.operator_ns(PREDICT) if stack.model else ()
    again = trimmed_mean(values) if len(values) else None
    for part, name, warm in ((OPEN, "load_ns", None), (PREDICT, "first_run_ns", again)):
        told = run.row.conditions.get(name)
        if isinstance(told, int | float) and told > 0:
            yield _cells(stack, run, part, "", 1, float(told), warm)


def _cells(
    stack: Stack, run: Run, part: str, layer: str, count: int, cold: float, warm: float | None
) -> dict[str, Any]:
    return {
        "agent": stack.agent,
        "batch_size": stack.batch_size,
        "run": run.row.run,
        "part": part,
        "layer": layer,
        "count": count,
        "cold": cold,
        "warm": warm,
        "extra": None if warm is None else cold - warm,
        "times": share(cold, warm),
    }


ANALYSIS = Analysis(
    name="cold_start",
    title="Cold start against warm",
    source=(
        "Of runs of the scenario `cold`: mean over openings, beside the trimmed mean warm; without "
        "such a run what opening and the first run took as the agent noted it, once: no interval."
    ),
    columns=(
        text("agent", "Where it ran."),
        whole("batch_size", "Samples in a query."),
        text("run", "The run that the cold time is from."),
        text("part", "open, predict or another operator; copies; layer."),
        text("layer", "The layer's name."),
        whole("count", "Openings it is over."),
        real("cold", "Mean time cold."),
        real("warm", "Trimmed mean of the same warm; null where it is not there."),
        real("extra", "Cold less warm."),
        real("times", "Cold over warm.", "1"),
    ),
    compute=cold_start,
    chart=bars(("layer", "Layer"), ("extra", "Cold less warm (ns)"), "part", "times"),
)
