"""Layer roofline (A14): each layer's intensity and throughput below its device's roof."""

from collections.abc import Iterator
from typing import Any

from mlscope.counts import be, many, verb
from schemas.analysis import Table
from services.analyzer.ceilings import ceilings_of, roof_notes
from services.analyzer.frames import Frames
from services.analyzer.tables.charts import roofline
from services.analyzer.tables.kernel_frames import point_of
from services.analyzer.tables.kernel_sums import Traced, kernel_doubts, traced_of
from services.analyzer.tables.kernels_by_layer import layer_rows
from services.analyzer.tables.layer_frames import layers_of, no_layers
from services.analyzer.tables.stacks import STACK_COLUMNS, Stack, stacks_of
from services.analyzer.tables.static_points import above_roof
from services.analyzer.tables.table import (
    Analysis,
    estimate,
    in_percent,
    made,
    real,
    share,
    text,
    truth,
    whole,
)


def layer_roofline(frames: Frames) -> Table:
    """Return a row a layer with an intensity: of counters where there are, else of its shapes."""
    stacks = list(stacks_of(frames))
    rows = layer_points(frames)
    told = {row["run"] for row in rows}
    runs = [run for stack in stacks for run in (stack.traced, stack.layered) if run]
    notes = roof_notes(run.row for run in runs if run.row.run in told)
    caveats = [*kernel_doubts(frames, traced_of(frames)), *notes, *above_roof(rows)]
    return made(ANALYSIS, rows, _verdict(rows) if runs else no_layers(frames), caveats)


def layer_points(frames: Frames) -> list[dict[str, Any]]:
    """Return the rows of every stack."""
    traced = {_key(each.stack): each for each in traced_of(frames)}
    return [row for stack in stacks_of(frames) for row in _of_stack(stack, traced.get(_key(stack)))]


def _key(stack: Stack) -> tuple[str, str, str, int, str]:
    return stack.agent, stack.session, stack.scenario, stack.batch_size, stack.parameters


def _of_stack(stack: Stack, found: Traced | None) -> list[dict[str, Any]]:
    if found is not None and found.counted.has_counters:
        return list(_counted(found))
    return list(static_points(stack, found))


def _counted(traced: Traced) -> Iterator[dict[str, Any]]:
    for row in layer_rows(traced):
        if row["intensity"] is not None and row["layer"] is not None:
            told = traced.stack.cells(traced.run) | {"ridge": traced.ceilings.ideal_intensity}
            yield _cells(told, row, "counters", "kernels")


def static_points(stack: Stack, traced: Traced | None) -> Iterator[dict[str, Any]]:
    """Yield points of FLOP and bytes as shapes tell, over kernels' time, else the layer's own."""
    run = stack.layered
    if run is None:
        return
    ceilings = ceilings_of(run.row)
    kernels = {row["layer"]: row for row in traced.sums("layer")} if traced else {}
    for layer in layers_of(run).drop_nulls(["flops", "time"]).to_dicts():
        calls = layer["spans"] / layer["queries"]
        moved = [_times(layer[name], calls) for name in ("bytes_read", "bytes_written")]
        time = kernels.get(layer["node"], layer)
        flops = layer["flops"] * calls
        point = point_of(flops, (moved[0], moved[1]), time["time"], ceilings)
        if point["intensity"] is None:
            continue
        amounts = {"flops": flops, "dram_read_bytes": moved[0], "dram_write_bytes": moved[1]}
        row = {**layer, **amounts, **point, "layer": layer["node"]}
        row |= {name: time[name] for name in ("time", "time_low", "time_high", "queries")}
        of = "kernels" if layer["node"] in kernels else "layer"
        told = stack.cells(traced.run if traced else run) | {"ridge": ceilings.ideal_intensity}
        yield _cells(told, row, "static", of)


def _times(amount: float | None, calls: float) -> float | None:
    return None if amount is None else amount * calls


def _cells(told: dict[str, Any], row: dict[str, Any], source: str, time_of: str) -> dict[str, Any]:
    names = {column.name for column in ANALYSIS.columns}
    return {
        **{name: value for name, value in row.items() if name in names},
        **told,
        "bytes": row["dram_read_bytes"] + row["dram_write_bytes"],
        "of_roof": share(row["throughput"], row["roof"]),
        "source": source,
        "time_of": time_of,
    }


def _verdict(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "No run at level hardware counted, and no layer says, FLOP and bytes."
    first = [row for row in rows if row["run"] == rows[0]["run"]]
    how = "as counted" if first[0]["source"] == "counters" else "as shapes tell, not as counted"
    judged = [row for row in first if row["memory_bound"] is not None]
    if not judged:
        return (
            f"{many(len(first), 'layer')} {verb(len(first), 'has', 'have')} an intensity ({how}); "
            "the roof of their device is unknown."
        )
    bound = [row for row in judged if row["memory_bound"]]
    part = share(sum(row["time"] for row in bound), sum(row["time"] for row in judged))
    return (
        f"{len(bound)} of {many(len(judged), 'layer')} {be(len(bound))} memory-bound ({how}) in "
        f"{first[0]['run']}, {in_percent(part)} of their time."
    )


ANALYSIS = Analysis(
    name="layer_roofline",
    id="A14",
    title="Roofline of layers (A14)",
    source=(
        "XSP A14; roof = min(peak, bandwidth x intensity) (Williams, Waterman and Patterson 2009). "
        "Without counters FLOP and bytes are those of the shapes: every input and output moved "
        "once, so a bound and no measurement."
    ),
    columns=(
        *STACK_COLUMNS,
        whole("layer", "The layer's index."),
        text("name", "The layer's name."),
        text("type", "Its type."),
        whole("queries", "Queries that its time is over."),
        *estimate("time", "Trimmed mean of its time a query."),
        text("time_of", "kernels: their summed time; layer: its own span."),
        text("source", "counters, or static: as shapes tell."),
        real("flops", "Floating-point operations a query, 2 a multiply-add.", "FLOP"),
        real("bytes", "Bytes read and written a query.", "By"),
        real("intensity", "FLOP over bytes.", "FLOP/By"),
        real("throughput", "FLOP over its time.", "FLOP/s"),
        real("roof", "What its device attains at this intensity.", "FLOP/s"),
        real("of_roof", "Throughput over the roof.", "1"),
        real("ridge", "The ideal intensity: peak over bandwidth.", "FLOP/By"),
        truth("memory_bound", "Whether intensity is below the ideal one; null where unknown."),
    ),
    compute=layer_roofline,
    chart=roofline("name", "type", "time", "of_roof", "source"),
)
