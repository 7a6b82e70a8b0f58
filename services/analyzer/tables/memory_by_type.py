"""Layer memory by type (A7): bytes that all layers of a type allocate."""

from typing import Any

import polars as pl

from mlscope.client.quantities import shown
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.tables.charts import pie
from services.analyzer.tables.layer_frames import layers_of, no_layers
from services.analyzer.tables.layer_memory import memory_note
from services.analyzer.tables.stacks import layered_runs
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    in_percent,
    made,
    real,
    text,
    trace_doubts,
    whole,
)
from services.analyzer.tables.type_sums import count_rows


def memory_by_type(frames: Frames) -> Table:
    """Return a row a type, most memory first in a run."""
    runs = list(layered_runs(frames))
    rows = [row for run in runs for row in _rows(run)]
    verdict = no_layers(frames)
    if rows:
        most = rows[0]
        verdict = (
            f"{most['type'] or 'Untyped'} layers allocate {in_percent(most['share'])} of the "
            f"layers' memory, {shown(most['memory_bytes'], 'By')} in {most['run']}."
        )
    elif runs:
        verdict = "No layer says how much memory it allocates."
    notes = [note for run in runs if (note := memory_note(run))]
    return made(ANALYSIS, rows, verdict, [*trace_doubts(frames), *notes])


def _rows(run: Run) -> list[dict[str, Any]]:
    layers = layers_of(run).drop_nulls("memory_bytes")
    return count_rows(run, layers, "memory_bytes", pl.col("memory_bytes").sum())


ANALYSIS = Analysis(
    name="memory_by_type",
    id="A7",
    title="Layers by type: memory (A7)",
    source="XSP A7: summed memory of one call of each layer of a type. Of the graph: no interval.",
    columns=(
        *RUN_COLUMNS,
        text("type", "The layers' type."),
        whole("layers", "Layers of it that say their memory."),
        whole("memory_bytes", "Bytes that they allocate, each called once.", "By"),
        real("share", "Share of all that layers allocate.", "1"),
    ),
    compute=memory_by_type,
    chart=pie(("memory_bytes", "Allocated (bytes)"), "type"),
)
