"""A cold start by layer: time to load and move its weights, time of the first and of warm runs."""

from collections.abc import Iterator, Sequence
from typing import Any

from mlscope.counts import many
from mlscope.quantities import shown
from mlscope.tracing.weights import LOAD, PLACE
from schemas.analysis import Table
from services.analyzer.building.best import leader
from services.analyzer.building.charts import Axis, layer_bars
from services.analyzer.building.cold_starts.openings import (
    Openings,
    layer_times,
    matching_layers,
    openings_of,
)
from services.analyzer.building.cold_starts.weights import (
    summed_by_layer,
    weight_bytes,
    weight_copies,
    weight_spans,
)
from services.analyzer.building.margins import UNKNOWN, difference, trimmed_margins_by_key
from services.analyzer.building.stacks import SYSTEM_LEVEL
from services.analyzer.building.table import (
    Analysis,
    estimate_columns,
    float_column,
    format_time,
    int_column,
    make_table,
    run_warnings,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import LAYER_LEVEL, Frames
from services.analyzer.frames.own_devices import HOST

_Row = dict[str, Any]


def cold_layers(frames: Frames) -> Table:
    """Return a row for each layer, or module with weights, of each agent and batch size."""
    rows: list[_Row] = []
    notes: list[str] = []
    for cold, warm in openings_of(frames):
        opened = list(_cold_layer_rows(cold, warm))
        rows += opened
        notes += _notes(cold, opened)
    notes = [*run_warnings(frames), *notes]
    verdict = "No run of the scenario cold traced layers at level framework."
    return make_table(ANALYSIS, rows, _verdict(rows) if rows else verdict, notes)


def _verdict(rows: Sequence[_Row]) -> str:
    """Return what the layers' weights are and cost, and which layer loses the most time."""
    sizes = _values(rows, "weight_bytes")
    weights = f"{shown(sum(sizes), 'By')} of weights" if sizes else "weights of unknown size"
    times = [
        f"{format_time(sum(spent))} to {action} them"
        for action, spent in (("load", _values(rows, "load")), ("move", _values(rows, "place")))
        if spent
    ]
    moved = f": {', '.join(times)}" if times else ""
    verdict = f"{many(len(rows), 'layer')} with {weights}{moved}"
    slowed = [row for row in rows if row["extra"] is not None]
    if slowed:
        slowest = leader(slowed, "extra")
        question = "which layer loses the most time in its first run"
        doubt = slowest.doubt(question, lambda row: str(row["layer"]), ("run",))
        loss = format_time(slowest.row["extra"])
        lost = f"{slowest.row['layer']} loses the most time in its first run, {loss}"
        verdict += f"; {doubt or lost}"
    return f"{verdict}."


def _values(rows: Sequence[_Row], name: str) -> list[Any]:
    return [row[name] for row in rows if row[name] is not None]


def _notes(cold: Openings, rows: Sequence[_Row]) -> Iterator[str]:
    """Yield what is unknown about an agent's openings, and why."""
    runs = [run for level in cold.by_level for run in cold.at(level) if level >= LAYER_LEVEL]
    if not runs:
        return
    place = f"{cold.agent}, batch {cold.batch_size}" if cold.agent else f"batch {cold.batch_size}"
    if not _values(rows, "weight_bytes"):
        yield f"{place}: {runs[0].row.framework} does not report the weights of each layer"
    elif not _values(rows, "load"):
        yield f"{place}: weights were not loaded layer by layer: only the time to move is known"
    if untimed := len(rows) - len(_values(rows, "first")):
        yield (
            f"{place}: {many(untimed, 'module')} with weights of {len(rows)} rows have no time of "
            "their own in a first run"
        )
    if runs[0].row.device.partition(":")[0] != HOST and not cold.at(SYSTEM_LEVEL):
        yield f"{place}: no cold run at level system has the time of copies on the device"


def _cold_layer_rows(cold: Openings, warm: Openings) -> Iterator[_Row]:
    """Yield a row for each layer, and for each module that has weights but no layer.

    `cold` are the openings of an agent and batch size, `warm` the runs to compare them with.
    """
    level = cold.shallowest(LAYER_LEVEL)
    if level is None:
        return
    runs = cold.at(level)
    loads, places = (
        trimmed_margins_by_key(summed_by_layer(weight_spans(run, action) for run in runs))
        for action in (LOAD, PLACE)
    )
    # Time on the device of copies that began while a layer's weights were moved.
    copies = trimmed_margins_by_key(summed_by_layer(map(weight_copies, cold.at(SYSTEM_LEVEL))))
    sizes = weight_bytes(runs)
    first, later = (
        trimmed_margins_by_key(layer_times(openings.at(level))) for openings in (cold, warm)
    )
    matching = matching_layers(first, later)
    pending = dict.fromkeys((*loads, *places, *sizes))
    names = {name for _, name in first}
    modules = [(None, name) for name in pending if name not in names]
    for node, name in (*first, *modules):
        # The first of several layers of one module, or of one name, gets the weights.
        has_weights = name in pending
        pending.pop(name, None)
        before = first.get((node, name), UNKNOWN)
        after = later[matching[node, name]] if (node, name) in matching else UNKNOWN
        weight_cells: dict[str, Any] = {}
        for cell, margins in (("load", loads), ("place", places), ("copy", copies)):
            margin = margins.get(name, UNKNOWN) if has_weights else UNKNOWN
            weight_cells |= margin.cells(cell)
        yield {
            "agent": cold.agent,
            "batch_size": cold.batch_size,
            "run": runs[0].row.run,
            "index": None if node is None or node < 0 else node,
            "node": -1 if node is None else node,
            "layer": name,
            "openings": len(runs),
            "weight_bytes": sizes.get(name) if has_weights else None,
            **weight_cells,
            **before.cells("first"),
            **after.cells("warm"),
            **difference(before, after).cells("extra"),
            "times": share(before.value, after.value),
        }


ANALYSIS = Analysis(
    name="cold_layers",
    title="Cold start by layer",
    source=(
        "Trimmed means over openings, from runs of the scenario `cold`, with intervals by "
        "Student's t (none for one opening; that of extra combines both). load and place are "
        "spans around loading and moving each module's weights; copy is the time of the device's "
        "copies launched in them (level system); first and warm are the layer's time in the first "
        "run and after it."
    ),
    columns=(
        text_column("agent", "The agent that ran it."),
        int_column("batch_size", "Samples per query."),
        text_column("run", "The first of the runs measured."),
        int_column(
            "index", "The framework's number of the layer; null for a module that is not a layer."
        ),
        text_column("layer", "Name of the layer or module."),
        int_column("node", "The framework's number of the layer; -1 without one."),
        int_column("openings", "Openings measured."),
        int_column(
            "weight_bytes", "Bytes of its own weights; null where unknown or without weights.", "By"
        ),
        *estimate_columns("load", "Time to load its weights; null where not traced."),
        *estimate_columns(
            "place", "Time the host takes to move its weights to the device; null on a host."
        ),
        *estimate_columns("copy", "Time of these copies on the device."),
        *estimate_columns("first", "Time of the layer in the first run."),
        *estimate_columns("warm", "Trimmed mean of its time in warm queries."),
        *estimate_columns("extra", "First minus warm."),
        float_column("times", "First divided by warm.", "1"),
    ),
    compute=cold_layers,
    chart=layer_bars(Axis("extra", "First minus warm", "ns"), "times", color=""),
)
