"""Layer memory (A4): bytes that each layer allocates, in execution order."""

from typing import Any

from mlscope.client.quantities import shown
from mlscope.counts import many, verb
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.charts import bars
from services.analyzer.tables.layer_frames import layers_of, no_layers
from services.analyzer.tables.stacks import layered_runs
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    made,
    run_cells,
    text,
    trace_doubts,
    whole,
)


def layer_memory(frames: Frames) -> Table:
    """Return a row a layer whose memory is known."""
    runs = list(layered_runs(frames))
    rows = [row for run in runs for row in _rows(run)]
    unknown = [note for run in runs if (note := memory_note(run))]
    verdict = _verdict(rows) if runs else no_layers(frames)
    return made(ANALYSIS, rows, verdict, [*trace_doubts(frames), *unknown])


def memory_note(run: Run) -> str:
    """Say how many of a run's layers do not tell their memory; '' when all do."""
    missing = layers_of(run)["memory_bytes"].null_count()
    total = layers_of(run).height
    if not missing:
        return ""
    does = verb(missing, "does", "do")
    return f"{run.row.run}: {missing} of {many(total, 'layer')} {does} not say their memory"


def _verdict(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "No layer says how much memory it allocates."
    first = [row for row in rows if row["run"] == rows[0]["run"]]
    most = max(first, key=lambda row: row["memory_bytes"])
    total = sum(row["memory_bytes"] for row in first)
    how = "by the size of its outputs" if most["memory_kind"] == "outputs" else "as measured"
    every = "the one layer" if len(first) == 1 else f"all {len(first)} layers together"
    return (
        f"{most['name']} allocates most, {shown(most['memory_bytes'], 'By')} a call {how}; "
        f"{every} {shown(total, 'By')} in {first[0]['run']}."
    )


def _rows(run: Run) -> list[dict[str, Any]]:
    found = layers_of(run).rename({"place": "index"}).drop_nulls("memory_bytes")
    kept = [each.name for each in ANALYSIS.columns if each.name in found.columns]
    return [{**run_cells(run.row), **row} for row in found.select(kept).to_dicts()]


ANALYSIS = Analysis(
    name="layer_memory",
    id="A4",
    title="Memory of layers (A4)",
    source=(
        "XSP A4: what a layer's call allocates; where the framework does not say, the size of its "
        "outputs. It is one figure of the graph, not a sample: no interval."
    ),
    columns=(
        *RUN_COLUMNS,
        whole("index", "Place in execution order, from 0."),
        text("name", "The layer's name."),
        text("type", "Its type."),
        text("shape", "Shape of its output."),
        whole("queries", "Queries it served."),
        whole("memory_bytes", "Bytes that one call allocates.", "By"),
        text("memory_kind", "measured, or outputs: the size of its outputs."),
    ),
    compute=layer_memory,
    chart=bars(("index", "Layer"), ("memory_bytes", "Allocated (bytes)"), "name", "shape"),
)
