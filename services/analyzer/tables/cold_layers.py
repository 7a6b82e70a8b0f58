"""A cold start by layer: its weights, what loading and copying them took, first run and warm."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from mlscope.client.quantities import shown
from mlscope.counts import many
from mlscope.tracing.weights import LOAD, PLACE, weights_prefix
from schemas.analysis import Table
from schemas.batch import SpanKind
from services.analyzer.frames import LAYER_LEVEL, Frames, Run
from services.analyzer.own_devices import HOST
from services.analyzer.tables.charts import bars
from services.analyzer.tables.margins import UNKNOWN, difference, each_trimmed
from services.analyzer.tables.openings import Openings, alike, layer_times, openings_of
from services.analyzer.tables.stacks import SYSTEM_LEVEL
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

_Row = dict[str, Any]


def cold_layers(frames: Frames) -> Table:
    """Return a row a layer, or a module with weights, of each agent and batch size."""
    rows: list[_Row] = []
    notes: list[str] = []
    for cold, warm in openings_of(frames):
        found = list(_rows(cold, warm))
        rows += found
        notes += _unknown(cold, found)
    return made(ANALYSIS, rows, _verdict(rows), [*doubts(frames), *notes])


def _verdict(rows: Sequence[_Row]) -> str:
    if not rows:
        return "No run of the scenario cold at level framework tells of layers."
    sizes = [row["weight_bytes"] for row in rows if row["weight_bytes"] is not None]
    cold = [row for row in rows if row["extra"] is not None]
    told = f"{many(len(rows), 'layer')} with {_weights(sizes)}{_moved(rows)}"
    if not cold:
        return f"{told}."
    worst = max(cold, key=lambda row: row["extra"])
    lost = f"{worst['layer']} loses most, {in_time(worst['extra'])}, by its first run"
    return f"{told}; {lost}."


def _weights(sizes: Sequence[int]) -> str:
    return f"{shown(sum(sizes), 'By')} of weights" if sizes else "weights of unknown size"


def _moved(rows: Sequence[_Row]) -> str:
    """Return what loading and moving the weights took, as far as that was seen; '' of none."""
    verbs = {"load": "load", "place": "move"}
    spent = {name: [row[name] for row in rows if row[name] is not None] for name in verbs}
    told = [f"{in_time(sum(ns))} to {verbs[name]} them" for name, ns in spent.items() if ns]
    return f": {', '.join(told)}" if told else ""


def _unknown(cold: Openings, rows: Sequence[_Row]) -> Iterator[str]:
    """Yield what is not known of an agent's openings, and why."""
    runs = [run for level in cold.by_level for run in cold.at(level) if level >= LAYER_LEVEL]
    if not runs:
        return
    where = f"{cold.agent}, batch {cold.batch_size}" if cold.agent else f"batch {cold.batch_size}"
    if all(row["weight_bytes"] is None for row in rows):
        yield f"{where}: {runs[0].row.framework} does not tell what weights cost layer by layer"
    elif all(row["load"] is None for row in rows):
        yield f"{where}: its weights were not loaded layer by layer: only moving them is known"
    if untimed := sum(row["first"] is None for row in rows):
        yield (
            f"{where}: {many(untimed, 'module')} with weights of {len(rows)} rows have no time of "
            "their own in a first run"
        )
    if runs[0].row.device.partition(":")[0] != HOST and not cold.at(SYSTEM_LEVEL):
        yield f"{where}: no cold run at level system tells what copies took on the device"


def _rows(cold: Openings, warm: Openings) -> Iterator[_Row]:
    level = cold.shallowest(LAYER_LEVEL)
    if level is None:
        return
    runs = cold.at(level)
    loads, places = (each_trimmed(_moves(runs, action)) for action in (LOAD, PLACE))
    copies = each_trimmed(_copies(cold.at(SYSTEM_LEVEL)))
    sizes = _weight_bytes(runs)
    first, again = (each_trimmed(layer_times(each.at(level))) for each in (cold, warm))
    same = alike(first, again)
    untold = dict.fromkeys((*loads, *places, *sizes))
    for node, name in (*first, *((None, name) for name in _without_layer(untold, first))):
        # Of layers that share a module, or only its name, the first one has the weights.
        is_told = name in untold
        untold.pop(name, None)
        before = first.get((node, name), UNKNOWN)
        after = again[same[node, name]] if (node, name) in same else UNKNOWN
        moves = {"load": loads, "place": places, "copy": copies} if is_told else {}
        told = {each: moves.get(each, {}).get(name, UNKNOWN) for each in ("load", "place", "copy")}
        yield {
            "agent": cold.agent,
            "batch_size": cold.batch_size,
            "run": runs[0].row.run,
            "index": None if node is None or node < 0 else node,
            "layer": name,
            "openings": len(runs),
            "weight_bytes": sizes.get(name) if is_told else None,
            **{cell: value for each in told for cell, value in told[each].cells(each).items()},
            **before.cells("first"),
            **after.cells("warm"),
            **difference(before, after).cells("extra"),
            "times": share(before.value, after.value),
        }


def _without_layer(modules: Iterable[str], layers: Iterable[tuple[int, str]]) -> list[str]:
    """Return the modules with weights that no layer is called like."""
    known = {name for _, name in layers}
    return [name for name in modules if name not in known]


def _named(run: Run, action: str) -> pl.DataFrame:
    """Return the spans of loading or moving weights: layer, start_ns, duration_ns."""
    prefix = weights_prefix(action)
    is_move = pl.col("name").str.starts_with(prefix) & (pl.col("kind") == int(SpanKind.HOST))
    layer = pl.col("name").str.strip_prefix(prefix).alias("layer")
    return run.spans.filter(is_move).select(layer, "start_ns", "duration_ns").sort("start_ns")


def _moves(runs: Sequence[Run], action: str) -> dict[str, list[float]]:
    return _summed(_named(run, action) for run in runs)


def _summed(frames: Any) -> dict[str, list[float]]:
    """Return the sum of durations by layer, a value a frame that has it."""
    found: dict[str, list[float]] = {}
    for frame in frames:
        sums = frame.group_by("layer", maintain_order=True).agg(pl.col("duration_ns").sum())
        for layer, ns in sums.iter_rows():
            found.setdefault(layer, []).append(float(ns))
    return found


def _weight_bytes(runs: Sequence[Run]) -> dict[str, int]:
    """Return the bytes of each layer's own weights, as the first run that tells has them."""
    found: dict[str, int] = {}
    for run in runs:
        for action in (LOAD, PLACE):
            prefix = weights_prefix(action)
            told = run.series.filter(pl.col("name").str.starts_with(prefix))
            for name, value in told.select("name", "value").iter_rows():
                found.setdefault(name.removeprefix(prefix), int(value))
    return found


def _copies(runs: Sequence[Run]) -> dict[str, list[float]]:
    """Return the time on the device of copies that began while a layer's weights were moved."""
    return _summed(_copied(run) for run in runs)


def _copied(run: Run) -> pl.DataFrame:
    places = _named(run, PLACE).with_columns(
        (pl.col("start_ns") + pl.col("duration_ns")).alias("ended_ns")
    )
    copies = (
        run.kernels.filter(pl.col("kind") == int(SpanKind.COPY))
        .select(pl.coalesce("launch_ns", "start_ns").alias("at_ns"), "duration_ns")
        .sort("at_ns")
    )
    joined = copies.join_asof(
        places.select("layer", "start_ns", "ended_ns"), left_on="at_ns", right_on="start_ns"
    )
    return joined.filter(pl.col("at_ns") <= pl.col("ended_ns")).select("layer", "duration_ns")


ANALYSIS = Analysis(
    name="cold_layers",
    title="Cold start by layer",
    source=(
        "Of runs of the scenario `cold`, trimmed means over openings, with intervals by Student's "
        "t (none of one opening; an extra's by both's). Weights: spans around each module's "
        "loading and moving; copies: those of the device that were launched in them (level "
        "system); first and warm: the layer's time in the very first run, and trimmed mean after."
    ),
    columns=(
        text("agent", "Where it ran."),
        whole("batch_size", "Samples in a query."),
        text("run", "The first of the runs that it is from."),
        whole("index", "The layer's index in its model; null of a module that is no layer."),
        text("layer", "The layer's, or the module's, name."),
        whole("openings", "Openings it is over."),
        whole("weight_bytes", "Bytes of its own weights; null: unknown, or none.", "By"),
        *estimate("load", "Reading its weights into it; null where that is not seen."),
        *estimate("place", "Moving its weights to the device, as the host waits; null on a host."),
        *estimate("copy", "The same on the device: its copies' own time."),
        *estimate("first", "Its time in the first run."),
        *estimate("warm", "Trimmed mean of its time warm, over all queries."),
        *estimate("extra", "First less warm."),
        real("times", "First over warm.", "1"),
    ),
    compute=cold_layers,
    chart=bars(("layer", "Layer"), ("extra", "First less warm (ns)"), "times"),
)
