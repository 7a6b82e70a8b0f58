"""Copies by layer: the memory that each layer copies, by direction, and its share of the layer."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from mlscope.load.scenarios import COLD
from schemas.analysis import Table
from services.analyzer.building.best import leader
from services.analyzer.building.charts import Axis, stacked
from services.analyzer.building.grouped import with_absent
from services.analyzer.building.kernel_sums import (
    TracedStack,
    layer_label,
    run_label,
    verdict_rows,
)
from services.analyzer.building.margins import UNKNOWN, Margin, mean_margin, ratio
from services.analyzer.building.side_by_side import ambiguous_parents
from services.analyzer.building.stacks import (
    HARDWARE_LEVEL,
    STACK_COLUMNS,
    SYSTEM_LEVEL,
    VARIANT_COLUMN,
    Stack,
    deeper_trace_warnings,
    launch_warnings,
    stacks_with_serialised,
)
from services.analyzer.building.table import (
    Analysis,
    counter_warnings,
    estimate_columns,
    float_column,
    format_share,
    format_time,
    int_column,
    make_table,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import Frames, Run
from services.analyzer.frames.kernels import answered_work, copies_of
from services.analyzer.frames.layers import layer_times, layers_of

_KINDS = {
    "host_to_device": ("HtoD", "HtoA", "UVM HtoD"),
    "device_to_host": ("DtoH", "AtoH", "UVM DtoH"),
    "device_to_device": ("DtoD", "AtoA", "AtoD", "DtoA", "PtoP", "UVM DtoD"),
}
"""Directions with their values of mlscope.tracing.copy_kinds; all others are `_OTHER`."""
_OTHER = "other"
DIRECTIONS = (*_KINDS, _OTHER)
_DIRECTION_OF = {kind: direction for direction, kinds in _KINDS.items() for kind in kinds}

NO_DEVICE = "No copies: no run at level system traced a GPU."
NO_COPIES = "No copies: the traced GPU copied no memory during queries."
COLD_COPIES = "Copies were traced only in cold starts; cold_start and cold_layers have them."


def copies_by_layer(frames: Frames) -> Table:
    """Return a row for each layer that copies memory, and one for the copies in no known layer.

    Rows of serialised runs follow those of plain ones; the verdict is about them where they exist.
    """
    stacks = stacks_with_serialised(frames)
    traced = [TracedStack(stack, run) for stack in stacks if (run := _device_run(stack))]
    by_stack = [(stack, _layer_rows(stack)) for stack in traced]
    rows = [row for _, stack_rows in by_stack for row in stack_rows]
    copying = [
        stack
        for stack, stack_rows in by_stack
        if any(row["layer"] is not None for row in stack_rows)
    ]
    layered = [run for stack in copying if (run := stack.stack.layered) is not None]
    verdict = _verdict(verdict_rows(rows)) if rows else _no_copies(frames, traced)
    notes = [
        *counter_warnings(frames),
        *deeper_trace_warnings(layered),
        *launch_warnings(stacks, {run.row.run for run in layered}),
        *ambiguous_parents([stack.run for stack in copying]),
    ]
    return make_table(ANALYSIS, rows, verdict, notes)


def _device_run(stack: Stack) -> Run | None:
    """Return the shallowest run that traced work on devices, kernels or not; never a replay."""
    runs = (
        run
        for level, run in sorted(stack.by_level.items())
        if level >= SYSTEM_LEVEL and level != HARDWARE_LEVEL
    )
    return next((run for run in runs if answered_work(run).height), None)


def _no_copies(frames: Frames, traced: Sequence[TracedStack]) -> str:
    """Return why the table is empty: nothing copied, only cold starts, or no GPU traced."""
    if traced:
        return NO_COPIES
    cold = (run for run in frames.measured if run.row.variant == COLD)
    return COLD_COPIES if any(copies_of(run).height for run in cold) else NO_DEVICE


def _verdict(rows: list[dict[str, Any]]) -> str:
    """Return what a run's layers copy, which of them copies longest, and what is copied outside."""
    run, inside = run_label(rows[0]), [row for row in rows if row["layer"] is not None]
    outside = [format_time(row["time"]) for row in rows if row["layer"] is None]
    if not inside:
        return (
            f"No layer copies memory ({run}); copies outside of layers take {outside[0]} per query."
        )
    longest = leader(inside, "time")
    row = longest.row
    of_layer = f", {format_share(row['share'])} of its time" if row["share"] else ""
    beyond = f"; copies outside of layers take {outside[0]}" if outside else ""
    label = layer_label(row, inside)
    if len(inside) == 1:
        time = format_time(row["time"])
        return f"Only {label} copies memory in {run}: {time} per query{of_layer}{beyond}."
    doubt = longest.doubt("which copies longest", lambda row: layer_label(row, inside))
    leading = doubt or f"{label} copies longest, {format_time(row['time'])}{of_layer}"
    copied = sum(row["time"] for row in inside)
    own = [row["latency"] for row in inside]
    of_layers = "" if None in own else f", {format_share(share(copied, sum(own)))} of their time"
    return (
        f"Copies take {format_time(copied)} per query in {len(inside)} layers of {run}"
        f"{of_layers}: {leading}{beyond}."
    )


def _layer_rows(traced: TracedStack) -> list[dict[str, Any]]:
    """Return the rows of one stack, in the order of the layers' indices, no known layer last."""
    kind = pl.col("copy_kind").fill_null("")
    direction = kind.replace_strict(_DIRECTION_OF, default=_OTHER, return_dtype=pl.String)
    ns = pl.col("duration_ns")
    amounts = (
        copies_of(traced.run)
        .group_by("layer", "query", maintain_order=True)
        .agg(
            ns.sum().alias("time"),
            pl.len().cast(pl.Int64).alias("copies"),
            *(ns.filter(direction == name).sum().alias(name) for name in DIRECTIONS),
        )
    )
    amounts = with_absent(
        amounts, ["layer"], answered_work(traced.run)["query"].unique(maintain_order=True)
    )
    by_layer = {key[0]: own for key, own in amounts.partition_by("layer", as_dict=True).items()}
    layers = dict(_own_layers(traced.stack.layered))
    rows = []
    for layer in sorted(by_layer, key=lambda layer: (layer is None, layer)):
        own = by_layer[layer]
        time = mean_margin(own["time"].to_numpy())
        type_, queries, latency = layers.get(layer, ("", 0, UNKNOWN))
        row = {
            **traced.stack.cells_with_variant(traced.run),
            "layer": layer,
            "name": traced.names.get(layer, ""),
            "type": type_,
            "latency_queries": queries,
            **latency.cells("latency"),
            "queries": own.height,
            "copies": float(own["copies"].mean()),  # type: ignore[arg-type]
            **time.cells("time"),
            **ratio(time, latency).cells("share"),
        }
        for name in DIRECTIONS:
            row |= mean_margin(own[name].to_numpy()).cells(name)
        rows.append(row)
    return rows


def _own_layers(layered: Run | None) -> Iterator[tuple[int, tuple[str, int, Margin]]]:
    """Yield the index of each layer with its type, its queries and the mean of its own time.

    Copies have the index of their layer; of several layers with it, the first gets them.
    """
    if layered is None:
        return
    times = layer_times(layered).partition_by("place", as_dict=True)
    ran = layers_of(layered).filter((pl.col("queries") > 0) & (pl.col("node") >= 0))
    for row in ran.unique("node", keep="first", maintain_order=True).to_dicts():
        spent = times[row["place"],]["time_ns"].to_numpy()
        yield row["node"], (row["type"], len(spent), mean_margin(spent))


ANALYSIS = Analysis(
    name="copies_by_layer",
    title="Copies of memory by layer",
    source=(
        "Sums over the copies that a layer launches in a query, whether or not they overlap, from "
        "the run at level system; the layer's own latency is from the run whose deepest level is "
        "framework. All are plain means over queries, so that directions add up. A layer without a "
        "row copies nothing. Serialised runs have rows of their own, with both times."
    ),
    columns=(
        *STACK_COLUMNS,
        VARIANT_COLUMN,
        int_column(
            "layer", "The framework's number of the layer; null for copies in no known layer."
        ),
        text_column("name", "The layer's name."),
        text_column("type", "The layer's type."),
        int_column("latency_queries", "Queries of its latency."),
        *estimate_columns("latency", "Mean of the layer's own time per query."),
        int_column("queries", "Queries measured."),
        float_column("copies", "Copies per query.", "1"),
        *estimate_columns("time", "Mean of the summed time of copies per query."),
        *estimate_columns(
            "share", "Time divided by latency; above 1 where copies outlast the layer's call.", "1"
        ),
        *estimate_columns("host_to_device", "Mean time of copies from the host to a device."),
        *estimate_columns("device_to_host", "Mean time of copies from a device to the host."),
        *estimate_columns("device_to_device", "Mean time of copies within or between devices."),
        *estimate_columns(_OTHER, "Mean time of copies within the host or of unknown direction."),
    ),
    compute=copies_by_layer,
    chart=stacked(
        ("layer", "Layer"),
        {name: name.replace("_", " ") for name in DIRECTIONS},
        Axis("", "Copy time per query", "ns"),
        "name",
        "type",
    ),
)
