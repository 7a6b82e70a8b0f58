"""Layer roofline (A14): each layer's intensity and throughput, and its device's roof."""

from collections.abc import Iterator
from typing import Any

from schemas.analysis import Table
from services.analyzer.building.charts import roofline
from services.analyzer.building.kernel_sums import TracedStack, kernel_warnings, traced_stacks
from services.analyzer.building.layer_work import TIME_OF_COLUMN
from services.analyzer.building.roofs.ceilings import Ceilings, ceilings_of, roof_sentences
from services.analyzer.building.roofs.roof_position import (
    MEMORY_BOUND_COLUMN,
    ROOF_COLUMNS,
    above_roof_notes,
    bound_text,
    roof_cells,
)
from services.analyzer.building.stacks import STACK_COLUMNS, Stack, stacks_of
from services.analyzer.building.table import (
    Analysis,
    estimate_columns,
    float_column,
    int_column,
    make_table,
    of_first_run,
    text_column,
)
from services.analyzer.frames.evaluation import Frames
from services.analyzer.frames.kernels import point_of
from services.analyzer.frames.layers import layers_of, no_layers
from services.analyzer.tables.kernels_by_layer import layer_rows


def layer_roofline(frames: Frames) -> Table:
    """Return a row for each layer with an intensity, by counters where they exist, else shapes."""
    rows = layer_points(frames)
    with_points = {row["run"] for row in rows}
    runs = [
        run for stack in stacks_of(frames) for run in (stack.with_kernels, stack.layered) if run
    ]
    notes = roof_sentences(run.row for run in runs if run.row.run in with_points)
    caveats = [*kernel_warnings(frames, traced_stacks(frames)), *notes, *above_roof_notes(rows)]
    if rows:
        first = of_first_run(rows)
        source = "by counters" if first[0]["source"] == "counters" else "by shapes, not by counters"
        verdict = bound_text(first, "layer", f" ({source})")
    elif runs:
        verdict = (
            "FLOP and bytes of layers are unknown: no counters, and no layer reports its work."
        )
    else:
        verdict = no_layers(frames)
    return make_table(ANALYSIS, rows, verdict, caveats)


def layer_points(frames: Frames) -> list[dict[str, Any]]:
    """Return the rows of every stack."""
    traced_by_load = {_load_key(traced.stack): traced for traced in traced_stacks(frames)}
    points: list[dict[str, Any]] = []
    for stack in stacks_of(frames):
        traced = traced_by_load.get(_load_key(stack))
        if traced is None or not traced.counted.has_counters:
            points += static_points(stack, traced)
            continue
        cells = traced.stack.cells(traced.run) | {"source": "counters", "time_of": "kernels"}
        points += [
            _cells(cells, row, traced.ceilings)
            for row in layer_rows(traced)
            if row["intensity"] is not None and row["layer"] is not None
        ]
    return points


def _load_key(stack: Stack) -> tuple[str, str, str, int, str]:
    return stack.agent, stack.session, stack.scenario, stack.batch_size, stack.parameters


def static_points(stack: Stack, traced: TracedStack | None) -> Iterator[dict[str, Any]]:
    """Yield points with the work of layers' shapes over kernel time, else the layers' own time.

    `traced` is the stack's kernels, None without kernels.
    """
    run = stack.layered
    if run is None:
        return
    ceilings = ceilings_of(run.row)
    kernels = {row["layer"]: row for row in traced.sums("layer")} if traced else {}
    cells = stack.cells(traced.run if traced else run) | {"source": "static"}
    for layer in layers_of(run).drop_nulls(["flops", "time"]).to_dicts():
        calls = layer["spans"] / layer["queries"]
        read, written = (
            None if layer[name] is None else layer[name] * calls
            for name in ("bytes_read", "bytes_written")
        )
        timed = kernels.get(layer["node"], layer)
        flops = layer["flops"] * calls
        point = point_of(flops, (read, written), timed["time"], ceilings)
        if point["intensity"] is None:
            continue
        amounts = {"flops": flops, "dram_read_bytes": read, "dram_write_bytes": written}
        row = {**layer, **amounts, **point, "layer": layer["node"]}
        row |= {name: timed[name] for name in ("time", "time_low", "time_high", "queries")}
        time_of = "kernels" if layer["node"] in kernels else "layer"
        yield _cells(cells | {"time_of": time_of}, row, ceilings)


def _cells(run_cells: dict[str, Any], row: dict[str, Any], ceilings: Ceilings) -> dict[str, Any]:
    names = {column.name for column in ANALYSIS.columns}
    return {
        **{name: value for name, value in row.items() if name in names},
        **run_cells,
        "bytes": row["dram_read_bytes"] + row["dram_write_bytes"],
        "ridge": ceilings.ideal_intensity,
        **roof_cells(row, ceilings, run_cells["source"]),
    }


ANALYSIS = Analysis(
    name="layer_roofline",
    id="A14",
    title="Roofline of layers (A14)",
    source=(
        "XSP A14; roof = min(peak, bandwidth x intensity) (Williams, Waterman and Patterson 2009). "
        "Without counters FLOP and bytes are those of the shapes, with every input and output "
        "moved once: a bound, not a measurement."
    ),
    columns=(
        *STACK_COLUMNS,
        int_column("layer", "The framework's number of the layer."),
        text_column("name", "The layer's name."),
        text_column("type", "The layer's type."),
        int_column("queries", "Queries measured."),
        *estimate_columns("time", "Trimmed mean of its time per query."),
        TIME_OF_COLUMN,
        text_column("source", "Source of FLOP and bytes: counters, or static: the layer's shapes."),
        float_column("flops", "Floating-point operations per query; a multiply-add is 2.", "FLOP"),
        float_column("bytes", "Bytes read and written per query.", "By"),
        float_column("intensity", "Arithmetic intensity: FLOP per byte.", "FLOP/By"),
        float_column("throughput", "Arithmetic throughput: FLOP per second of its time.", "FLOP/s"),
        float_column("roof", "Attainable throughput of the device at this intensity.", "FLOP/s"),
        *ROOF_COLUMNS,
        float_column("ridge", "The ideal intensity: peak / bandwidth.", "FLOP/By"),
        MEMORY_BOUND_COLUMN,
    ),
    compute=layer_roofline,
    chart=roofline("name", "time", "of_roof", "source", color="type", size="time"),
)
