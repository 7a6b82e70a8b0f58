"""Kernels by layer (A11): all kernels of a layer together, in execution order."""

from typing import Any

from mlscope.counts import counted, many
from schemas.analysis import Table
from services.analyzer.frames import Frames
from services.analyzer.tables.charts import bars
from services.analyzer.tables.kernel_sums import (
    SUM_COLUMNS,
    Traced,
    kernel_doubts,
    no_kernels,
    run_named,
    telling,
    traced_beside,
    without_counters,
)
from services.analyzer.tables.layer_frames import layers_of
from services.analyzer.tables.side_by_side import ambiguous_parents
from services.analyzer.tables.stacks import STACK_COLUMNS, VARIANT_COLUMN
from services.analyzer.tables.table import Analysis, estimate, in_time, made, text, whole


def kernels_by_layer(frames: Frames) -> Table:
    """Return a row a layer with kernels, and one of the kernels without a layer.

    Serialised runs' rows come behind plain ones'; the verdict is of theirs: they tell parents.
    """
    traced = traced_beside(frames)
    rows = [row for each in traced for row in layer_rows(each)]
    verdict = no_kernels(frames)
    if rows:
        first = [row for row in telling(rows) if row["layer"] is not None]
        verdict = "No kernel belongs to a known layer."
        if first:
            top = max(first, key=lambda row: row["time"])
            verdict = (
                f"Of {many(len(first), 'layer')} with kernels, layer {top['name']} takes most, "
                f"{in_time(top['time'])} a query in {counted(top['calls'], 'kernel')} "
                f"({run_named(top)})." + without_counters(traced)
            )
    unclear = ambiguous_parents([each.run for each in traced])
    return made(ANALYSIS, rows, verdict, [*kernel_doubts(frames, traced), *unclear])


def layer_rows(traced: Traced) -> list[dict[str, Any]]:
    """Return the rows of one stack by layer; the layer's own time is of the run at its level.

    Layers are matched between runs by their index, never by their name alone.
    """
    own: dict[int, dict[str, Any]] = {}
    if traced.stack.layered is not None:
        own = {row["node"]: row for row in layers_of(traced.stack.layered).to_dicts()}
    rows = []
    for row in traced.sums("layer"):
        layer = own.get(row["layer"], {})
        rows.append(
            {
                **traced.stack.cells_beside(traced.run),
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
        "own latency is of the run whose deepest level is framework. "
        "Serialised runs have rows of their own, with both times from them."
    ),
    columns=(
        *STACK_COLUMNS,
        VARIANT_COLUMN,
        whole("layer", "The layer's index; null: of kernels that belong to no known layer."),
        text("name", "The layer's name."),
        text("type", "Its type."),
        *estimate("latency", "Trimmed mean of the layer's own time a query."),
        whole("latency_queries", "Queries that is over."),
        *SUM_COLUMNS,
    ),
    compute=kernels_by_layer,
    chart=bars(("layer", "Layer"), ("time", "Time of kernels a query (ns)"), "name", "type"),
)
