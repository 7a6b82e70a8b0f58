"""Layers: index, name, type, shape, time and memory of each layer (A2), in execution order."""

from typing import Any

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.building.best import capitalised, estimate_text, leader
from services.analyzer.building.charts import Axis, layer_bars
from services.analyzer.building.stacks import (
    SERIALISED,
    VARIANT_COLUMN,
    deeper_trace_warnings,
    launch_warnings,
    launched_runs,
    layered_in,
    stacks_with_serialised,
)
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    columns_in,
    estimate_columns,
    float_column,
    format_share,
    format_time,
    int_column,
    make_table,
    of_first_run,
    run_cells,
    share,
    text_column,
    trace_warnings,
)
from services.analyzer.frames.evaluation import Frames
from services.analyzer.frames.layers import layers_of, no_layers, predict_ns, trimmed_delay_notes


def layers(frames: Frames) -> Table:
    """Return a row for each layer, from runs whose deepest level is framework where there are any.

    Layers of serialised runs follow those of plain ones.
    """
    stacks = stacks_with_serialised(frames)
    runs = list(layered_in(stacks))
    rows = []
    for run in runs:
        layers_of_run = layers_of(run).rename({"place": "index"})
        for row in layers_of_run.select(columns_in(layers_of_run, ANALYSIS.columns)).to_dicts():
            cells = {**run_cells(run.row), "variant": run.row.variant}
            rows.append({**cells, **row, "share": share(row["time"], predict_ns(run))})
    verdict = _verdict(rows, launched_runs(frames)) if rows else no_layers(frames)
    caveats = [*trace_warnings(frames), *deeper_trace_warnings(runs), *never_ran(rows)]
    caveats += [*trimmed_delay_notes(runs), *launch_warnings(stacks)]
    return make_table(ANALYSIS, rows, verdict, caveats)


def _verdict(rows: list[dict[str, Any]], launched: set[str]) -> str:
    plain = [row for row in of_first_run(rows) if row["queries"]]
    slowest = f"the slowest of {many(len(plain), 'layer')}"
    if rows[0]["run"] not in launched:
        return f"{capitalised(_slowest_text(plain, slowest))}."
    verdict = capitalised(_slowest_text(plain, f"{slowest} to launch"))
    size = plain[0]["batch_size"]
    serialised = [row for row in rows if row["variant"] == SERIALISED and row["batch_size"] == size]
    ran = [row for row in of_first_run(serialised) if row["queries"]]
    if not ran:
        return f"{verdict}."
    return f"{verdict}; serialised, {_slowest_text(ran, 'the slowest')}."


def _slowest_text(rows: list[dict[str, Any]], quantity: str) -> str:
    """Return which of the rows has the `quantity` ("the slowest"), with its type, time and share.

    Its position is added where other layers have the same name.
    """
    slowest = leader(rows, "time")

    def name_of(row: dict[str, Any]) -> str:
        is_unique = sum(layer["name"] == row["name"] for layer in rows) == 1
        details = ["" if is_unique else f"layer {row['index']}", row["type"]]
        detail = ", ".join(text for text in details if text)
        return f"{row['name']} ({detail})" if detail else str(row["name"])

    row = slowest.row
    if doubt := slowest.doubt(f"which is {quantity}", name_of, ("run",)):
        return f"{doubt}; about {estimate_text(row, 'time')} per query in {row['run']}"
    return (
        f"{quantity} is {name_of(row)}: {format_time(row['time'])} per query, "
        f"{format_share(row['share'])} of predict in {row['run']}"
    )


def never_ran(rows: list[dict[str, Any]]) -> list[str]:
    """Return a caveat that names layers that no query ran: they have no time, not a time of 0."""
    idle = [row for row in rows if not row["queries"]]
    if not idle:
        return []
    names = ", ".join(row["name"] for row in idle[:3])
    further = f" and {len(idle) - 3} more" if len(idle) > 3 else ""
    return [f"{many(len(idle), 'layer')} never ran: {names}{further}"]


ANALYSIS = Analysis(
    name="layers",
    id="A2",
    title="Layers (A2)",
    source=(
        "XSP A2: from runs whose deepest level is framework; trimmed mean over queries of a "
        "layer's summed spans, interval by winsorised variance (Tukey and McLaughlin 1963). "
        "Predict includes the cost of tracing. Serialised runs have rows of their own."
    ),
    columns=(
        *RUN_COLUMNS,
        VARIANT_COLUMN,
        int_column("index", "Position in execution order, from 0."),
        text_column("name", "The layer's name."),
        int_column("node", "The framework's number of the layer; -1 without one."),
        text_column("type", "The layer's type."),
        text_column("shape", "Shape of the layer's output."),
        text_column("provider", "The execution provider of the layer."),
        text_column("original", "The nodes of the model that it replaces, as JSON."),
        int_column("queries", "Queries measured; 0 for a layer that never ran."),
        int_column("spans", "Spans of the layer."),
        *estimate_columns("time", "Trimmed mean of its time per query."),
        float_column("share", "Share of the trimmed mean of predict in the same run.", "1"),
        int_column("memory_bytes", "Bytes that one call allocates; null where unknown.", "By"),
        text_column(
            "memory_kind", "Source of the bytes: measured, or outputs: the size of its outputs."
        ),
    ),
    compute=layers,
    chart=layer_bars(Axis("time", "Time per query", "ns"), "name", "shape"),
)
