"""Layers: index, name, type, shape, time and memory of each layer (A2), in execution order."""

from typing import Any

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.charts import bars
from services.analyzer.tables.layer_frames import layers_of, no_layers, predict_ns, trimmed_off
from services.analyzer.tables.stacks import (
    SERIALISED,
    VARIANT_COLUMN,
    deeper_than_layers,
    launch_doubts,
    launched_runs,
    layered_in,
    stacks_beside,
)
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    estimate,
    in_percent,
    in_time,
    made,
    real,
    run_cells,
    share,
    text,
    trace_doubts,
    whole,
)


def layers(frames: Frames) -> Table:
    """Return a row a layer, from runs whose deepest level is framework where there are such.

    Serialised runs' layers come behind those of plain ones.
    """
    stacks = stacks_beside(frames)
    runs = list(layered_in(stacks))
    rows = [row for run in runs for row in _rows(run)]
    verdict = _verdict(rows, launched_runs(frames)) if rows else no_layers(frames)
    caveats = [*trace_doubts(frames), *deeper_than_layers(runs), *never_ran(rows)]
    caveats += [*trimmed_off(runs), *launch_doubts(stacks)]
    return made(ANALYSIS, rows, verdict, caveats)


def _verdict(rows: list[dict[str, Any]], launched: set[str]) -> str:
    first = _ran(rows, rows[0]["run"])
    slowest = _slowest(first)
    if rows[0]["run"] not in launched:
        return f"The slowest of {many(len(first), 'layer')} is {_told(slowest, first)}."
    told = f"Of {many(len(first), 'layer')} the slowest to launch is {_told(slowest, first)}"
    waited = [
        row
        for row in rows
        if row["variant"] == SERIALISED and row["batch_size"] == slowest["batch_size"]
    ]
    others = _ran(waited, waited[0]["run"]) if waited else []
    if not others:
        return f"{told}."
    return f"{told}; serialised, the slowest is {_told(_slowest(others), others)}."


def _ran(rows: list[dict[str, Any]], run: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["run"] == run and row["queries"]]


def _slowest(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return max(rows, key=lambda row: row["time"])


def _told(row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    return (
        f"{_named(row, rows)}: {in_time(row['time'])} a query, {in_percent(row['share'])} of "
        f"predict in {row['run']}"
    )


def _named(row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """Return a layer's name, with its place where others have the same, and its type."""
    is_alone = sum(each["name"] == row["name"] for each in rows) == 1
    told = ["" if is_alone else f"layer {row['index']}", row["type"]]
    said = ", ".join(each for each in told if each)
    return f"{row['name']} ({said})" if said else str(row["name"])


def never_ran(rows: list[dict[str, Any]]) -> list[str]:
    """Return which layers of a model no query ran: they have no time, not a time of 0."""
    idle = [row for row in rows if not row["queries"]]
    if not idle:
        return []
    named = ", ".join(row["name"] for row in idle[:3])
    others = " and others" if len(idle) > 3 else ""
    return [f"{many(len(idle), 'layer')} never ran: {named}{others}"]


def _rows(run: Run) -> list[dict[str, Any]]:
    whole_ns = predict_ns(run)
    found = layers_of(run).rename({"place": "index"})
    kept = [each.name for each in ANALYSIS.columns if each.name in found.columns]
    return [
        {
            **run_cells(run.row),
            "variant": run.row.variant,
            **row,
            "share": share(row["time"], whole_ns),
        }
        for row in found.select(kept).to_dicts()
    ]


ANALYSIS = Analysis(
    name="layers",
    id="A2",
    title="Layers (A2)",
    source=(
        "XSP A2: from runs whose deepest level is framework; trimmed mean over queries of a "
        "layer's summed spans, interval by winsorised variance (Tukey and McLaughlin 1963). "
        "Predict holds the cost of tracing too. Serialised runs have rows of their own."
    ),
    columns=(
        *RUN_COLUMNS,
        VARIANT_COLUMN,
        whole("index", "Place in execution order, from 0."),
        text("name", "The layer's name."),
        whole("node", "The framework's own number for it; -1 when it has none."),
        text("type", "Its type."),
        text("shape", "Shape of its output."),
        text("provider", "What executed it."),
        text("original", "The model's own nodes it stands for, JSON."),
        whole("queries", "Queries it served; 0 is a layer that never ran."),
        whole("spans", "Spans of it."),
        *estimate("time", "Trimmed mean of its time a query."),
        real("share", "Share of predict's trimmed mean in the same run.", "1"),
        whole("memory_bytes", "Bytes that one call allocates; null where unknown.", "By"),
        text("memory_kind", "measured, or outputs: the size of its outputs."),
    ),
    compute=layers,
    chart=bars(("index", "Layer"), ("time", "Time a query (ns)"), "name", "type", "shape"),
)
