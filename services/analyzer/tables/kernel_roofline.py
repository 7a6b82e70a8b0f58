"""Kernel roofline (A9): each kernel's intensity and throughput, and its device's roof.

Without counters: the kernels that are alone in their layer, with the work of its shapes.
"""

from typing import Any

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.building.charts import roofline
from services.analyzer.building.kernel_sums import (
    TracedStack,
    kernel_warnings,
    no_counters,
    traced_stacks,
)
from services.analyzer.building.roofs.ceilings import roof_sentences
from services.analyzer.building.roofs.roof_position import (
    MEMORY_BOUND_COLUMN,
    ROOF_COLUMNS,
    above_roof_notes,
    bound_text,
    roof_cells,
)
from services.analyzer.building.roofs.static_points import kernel_points
from services.analyzer.building.stacks import STACK_COLUMNS
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
from services.analyzer.tables.kernels import kernel_rows


def kernel_roofline(frames: Frames) -> Table:
    """Return a row for each kernel with an intensity, longest time first."""
    traced = traced_stacks(frames)
    rows: list[dict[str, Any]] = []
    caveats = kernel_warnings(frames, traced)
    shown = []
    for stack in traced:
        points = _roofline_rows(stack)
        rows += points
        if points and not stack.counted.has_counters:
            kernels, count = many(len(kernel_rows(stack)), "kernel"), len(points)
            caveats.append(
                f"{stack.run.row.run}: no counters; shown are {count} of {kernels}, those alone in "
                "a layer whose shapes give its work"
            )
        if points:
            shown.append(stack.run.row)
    if rows:
        first = of_first_run(rows)
        source = "" if first[0]["source"] == "counters" else " (by shapes, not by counters)"
        verdict = bound_text(first, "kernel", source)
    else:
        verdict = no_counters(frames, traced)
    caveats += [*roof_sentences(shown), *above_roof_notes(rows)]
    return make_table(ANALYSIS, rows, verdict, caveats)


def _roofline_rows(traced: TracedStack) -> list[dict[str, Any]]:
    """Return a row for each kernel of a stack with an intensity, longest time first."""
    names = {column.name for column in ANALYSIS.columns}
    points, source = kernel_rows(traced), "counters"
    if not traced.counted.has_counters:
        points, source = kernel_points(traced, points), "static"
    ridge = traced.ceilings.ideal_intensity
    return [
        {
            **{name: value for name, value in row.items() if name in names},
            "source": source,
            "ridge": ridge,
            **roof_cells(row, traced.ceilings, source),
        }
        for row in points
        if row["intensity"] is not None
    ]


ANALYSIS = Analysis(
    name="kernel_roofline",
    id="A9",
    title="Roofline of kernels (A9)",
    source=(
        "XSP A9; the roof is min(peak, bandwidth x intensity) (Williams, Waterman and Patterson "
        "2009), with ceilings measured on the device, else from its datasheet. Without "
        "counters FLOP and bytes are those of the layer's shapes, where one kernel does all the "
        "work."
    ),
    columns=(
        *STACK_COLUMNS,
        int_column("layer", "The framework's number of its layer; null where unknown."),
        text_column("layer_name", "Name of the layer."),
        text_column("name", "The kernel's name."),
        int_column("nth", "Number of the kernel among those of its name in its layer, from 0."),
        int_column("queries", "Queries measured."),
        *estimate_columns("time", "Trimmed mean of its time per query."),
        text_column(
            "source", "Source of FLOP and bytes: counters, or static: the shapes of its layer."
        ),
        float_column(
            "intensity", "Arithmetic intensity: FLOP per byte read or written.", "FLOP/By"
        ),
        float_column("throughput", "Arithmetic throughput: FLOP per second of its time.", "FLOP/s"),
        float_column("roof", "Attainable throughput of the device at this intensity.", "FLOP/s"),
        *ROOF_COLUMNS,
        float_column("ridge", "The ideal intensity: peak / bandwidth.", "FLOP/By"),
        MEMORY_BOUND_COLUMN,
    ),
    compute=kernel_roofline,
    chart=roofline("name", "layer_name", "time", "of_roof", size="time"),
)
