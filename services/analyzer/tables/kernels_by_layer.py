"""Kernels by layer (A11): all kernels of a layer together, in execution order."""

from typing import Any

from mlscope.counts import counted, many
from schemas.analysis import Table
from services.analyzer.building.best import leader
from services.analyzer.building.charts import Axis, layer_bars
from services.analyzer.building.kernel_sums import (
    SUM_COLUMNS,
    TracedStack,
    kernel_warnings,
    layer_label,
    no_kernels,
    run_label,
    traced_with_serialised,
    verdict_rows,
    without_counters,
)
from services.analyzer.building.side_by_side import ambiguous_parents
from services.analyzer.building.stacks import STACK_COLUMNS, VARIANT_COLUMN
from services.analyzer.building.table import (
    Analysis,
    estimate_columns,
    format_time,
    int_column,
    make_table,
    text_column,
)
from services.analyzer.frames.evaluation import Frames
from services.analyzer.frames.layers import layers_of


def kernels_by_layer(frames: Frames) -> Table:
    """Return a row for each layer with kernels, and one for the kernels without a layer.

    Rows of serialised runs follow those of plain ones; the verdict is about them, as they have
    unambiguous parents.
    """
    traced = traced_with_serialised(frames)
    rows = [row for stack in traced for row in layer_rows(stack)]
    verdict = no_kernels(frames)
    if rows:
        first = [row for row in verdict_rows(rows) if row["layer"] is not None]
        verdict = "No kernel belongs to a known layer."
        if first:
            longest = leader(first, "time")
            row = longest.row
            text = longest.doubt("which takes longest", lambda row: layer_label(row, first))
            if not text:
                kernels = counted(row["calls"], "kernel")
                time = format_time(row["time"])
                text = f"{layer_label(row, first)} takes longest, {time} per query in {kernels}"
            of_layers = f"Of {many(len(first), 'layer')} with kernels"
            verdict = f"{of_layers}, {text} ({run_label(row)})." + without_counters(traced)
    unclear = ambiguous_parents([stack.run for stack in traced])
    return make_table(ANALYSIS, rows, verdict, [*kernel_warnings(frames, traced), *unclear])


def layer_rows(traced: TracedStack) -> list[dict[str, Any]]:
    """Return the rows of one stack by layer; the layer's own time is from the run at its level.

    Layers are matched between runs by their index, never by their name alone.
    """
    layers: dict[int, dict[str, Any]] = {}
    if traced.stack.layered is not None:
        layers = {row["node"]: row for row in layers_of(traced.stack.layered).to_dicts()}
    rows = []
    for row in traced.sums("layer"):
        layer = layers.get(row["layer"], {})
        rows.append(
            {
                **traced.stack.cells_with_variant(traced.run),
                "name": traced.names.get(row["layer"], ""),
                "type": layer.get("type", ""),
                "latency": layer.get("time"),
                "latency_low": layer.get("time_low"),
                "latency_high": layer.get("time_high"),
                "latency_queries": layer.get("queries"),
                **row,
            }
        )
    return sorted(rows, key=lambda row: (row["layer"] is None, row["layer"]))


ANALYSIS = Analysis(
    name="kernels_by_layer",
    id="A11",
    title="Kernels by layer (A11)",
    source=(
        "XSP A11: sums over a query's kernels of one layer, trimmed mean over queries; the layer's "
        "own latency is from the run whose deepest level is framework. Serialised runs have rows "
        "of their own, with both times."
    ),
    columns=(
        *STACK_COLUMNS,
        VARIANT_COLUMN,
        int_column(
            "layer", "The framework's number of the layer; null for kernels of no known layer."
        ),
        text_column("name", "The layer's name."),
        text_column("type", "The layer's type."),
        *estimate_columns("latency", "Trimmed mean of the layer's own time per query."),
        int_column("latency_queries", "Queries of its latency."),
        *SUM_COLUMNS,
    ),
    compute=kernels_by_layer,
    chart=layer_bars(Axis("time", "Kernel time per query", "ns"), "name", x=("layer", "Layer")),
)
