"""Layer memory by type (A7): bytes that all layers of a type allocate."""

import polars as pl

from mlscope.quantities import shown
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, ranked
from services.analyzer.building.stacks import layered_runs
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    float_column,
    format_share,
    int_column,
    make_table,
    text_column,
    trace_warnings,
)
from services.analyzer.building.type_sums import count_rows
from services.analyzer.frames.evaluation import Frames
from services.analyzer.frames.layers import layers_of, no_layers
from services.analyzer.tables.layer_memory import memory_note


def memory_by_type(frames: Frames) -> Table:
    """Return a row for each run and type, most memory first in a run."""
    runs = list(layered_runs(frames))
    rows = []
    for run in runs:
        with_memory = layers_of(run).drop_nulls("memory_bytes")
        rows += count_rows(run, with_memory, "memory_bytes", pl.col("memory_bytes").sum())
    verdict = no_layers(frames)
    if rows:
        top = rows[0]
        verdict = (
            f"{top['type'] or 'Untyped'} layers allocate {format_share(top['share'])} of the "
            f"layers' memory, {shown(top['memory_bytes'], 'By')} in {top['run']}."
        )
    elif runs:
        verdict = "The memory of no layer is known."
    notes = [note for run in runs if (note := memory_note(run))]
    return make_table(ANALYSIS, rows, verdict, [*trace_warnings(frames), *notes])


ANALYSIS = Analysis(
    name="memory_by_type",
    id="A7",
    title="Layers by type: memory (A7)",
    source="XSP A7: summed memory of one call of each layer of a type, by the graph: no interval.",
    columns=(
        *RUN_COLUMNS,
        text_column("type", "Type of the layers."),
        int_column("layers", "Layers of the type with known memory."),
        int_column("memory_bytes", "Bytes allocated by one call of each.", "By"),
        float_column("share", "Share of the bytes that all layers allocate.", "1"),
    ),
    compute=memory_by_type,
    chart=ranked(
        ("type", "Type"),
        Axis("memory_bytes", "Allocated", "By"),
        "layers",
        color="type",
        has_interval=False,
    ),
)
