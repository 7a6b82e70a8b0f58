"""Layer memory (A4): bytes that each layer allocates, in execution order."""

from mlscope.counts import many, verb
from mlscope.quantities import shown
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, layer_bars
from services.analyzer.building.stacks import layered_runs
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    columns_in,
    distinct_name,
    int_column,
    make_table,
    of_first_run,
    run_cells,
    text_column,
    trace_warnings,
)
from services.analyzer.frames.evaluation import Frames, Run
from services.analyzer.frames.layers import layers_of, no_layers


def layer_memory(frames: Frames) -> Table:
    """Return a row for each layer with known memory."""
    runs = list(layered_runs(frames))
    rows = []
    for run in runs:
        layers = layers_of(run).rename({"place": "index"}).drop_nulls("memory_bytes")
        with_memory = layers.select(columns_in(layers, ANALYSIS.columns))
        rows += [{**run_cells(run.row), **row} for row in with_memory.to_dicts()]
    unknown = filter(None, map(memory_note, runs))
    verdict = "The memory of no layer is known." if runs else no_layers(frames)
    if rows:
        first = of_first_run(rows)
        largest = max(first, key=lambda row: row["memory_bytes"])
        total = sum(row["memory_bytes"] for row in first)
        is_of_outputs = largest["memory_kind"] == "outputs"
        source = "by the size of its outputs" if is_of_outputs else "as measured"
        layer_text = "the only layer" if len(first) == 1 else f"all {len(first)} layers together"
        verdict = (
            f"{distinct_name(largest, first, 'index')} allocates the most, "
            f"{shown(largest['memory_bytes'], 'By')} per call {source}; "
            f"{layer_text} {shown(total, 'By')} in {first[0]['run']}."
        )
    return make_table(ANALYSIS, rows, verdict, [*trace_warnings(frames), *unknown])


def memory_note(run: Run) -> str:
    """Return how many layers of a run have unknown memory; '' for none."""
    missing = layers_of(run)["memory_bytes"].null_count()
    total = layers_of(run).height
    if not missing:
        return ""
    have = verb(missing, "has", "have")
    return f"{run.row.run}: {missing} of {many(total, 'layer')} {have} unknown memory"


ANALYSIS = Analysis(
    name="layer_memory",
    id="A4",
    title="Memory of layers (A4)",
    source=(
        "XSP A4: bytes allocated by a call of a layer; where the framework does not report it, the "
        "size of its outputs. It is a property of the graph, not a sample: no interval."
    ),
    columns=(
        *RUN_COLUMNS,
        int_column("index", "Position in execution order, from 0."),
        text_column("name", "The layer's name."),
        int_column("node", "The framework's number of the layer; -1 without one."),
        text_column("type", "The layer's type."),
        text_column("shape", "Shape of the layer's output."),
        int_column("queries", "Queries measured."),
        int_column("memory_bytes", "Bytes that one call allocates.", "By"),
        text_column(
            "memory_kind", "Source of the bytes: measured, or outputs: the size of its outputs."
        ),
    ),
    compute=layer_memory,
    chart=layer_bars(Axis("memory_bytes", "Allocated", "By"), "name", "shape", has_interval=False),
)
