"""Counters by layer (A12): FLOP, DRAM reads and writes of each layer's kernels."""

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, layer_bars
from services.analyzer.building.kernel_sums import (
    kernel_warnings,
    layer_label,
    no_counters,
    run_label,
    traced_with_serialised,
    verdict_rows,
)
from services.analyzer.building.stacks import STACK_COLUMNS, VARIANT_COLUMN
from services.analyzer.building.table import (
    Analysis,
    float_column,
    format_share,
    int_column,
    make_table,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import Frames
from services.analyzer.tables.kernels_by_layer import layer_rows


def layer_counters(frames: Frames) -> Table:
    """Return a row for each layer whose kernels were counted."""
    traced = traced_with_serialised(frames)
    names = [column.name for column in ANALYSIS.columns]
    rows = [
        {name: row[name] for name in names}
        for stack in traced
        for row in layer_rows(stack)
        if any(row[name] is not None for name in ("flops", "dram_read_bytes", "dram_write_bytes"))
    ]
    caveats = kernel_warnings(frames, traced)
    if not rows:
        return make_table(ANALYSIS, [], no_counters(frames, traced), caveats)
    first = verdict_rows(rows)
    parts: list[str] = []
    for name, amount in (("flops", "FLOP"), ("dram_read_bytes", "DRAM reads")):
        counted = [row for row in first if row[name] is not None]
        if counted:
            top = max(counted, key=lambda row: row[name])
            part = format_share(share(top[name], sum(row[name] for row in counted)))
            parts.append(f"{layer_label(top, first)} has the most {amount} ({part})")
    verdict = f"Of {many(len(first), 'layer')} in {run_label(first[0])}, {', '.join(parts)}."
    return make_table(ANALYSIS, rows, verdict, caveats)


ANALYSIS = Analysis(
    name="layer_counters",
    id="A12",
    title="Counters by layer (A12)",
    source=(
        "XSP A12: FLOP, bytes read from and written to DRAM, summed over a layer's kernels, mean "
        "over the counted queries. Counters of a replay are not samples and have no interval."
    ),
    columns=(
        *STACK_COLUMNS,
        VARIANT_COLUMN,
        int_column(
            "layer", "The framework's number of the layer; null for kernels of no known layer."
        ),
        text_column("name", "The layer's name."),
        text_column("type", "The layer's type."),
        int_column("queries", "Queries measured."),
        float_column("flops", "Floating-point operations per query; a multiply-add is 2.", "FLOP"),
        float_column("dram_read_bytes", "Bytes read from DRAM per query.", "By"),
        float_column("dram_write_bytes", "Bytes written to DRAM per query.", "By"),
        float_column("occupancy", "Achieved occupancy, weighted by kernel time.", "%"),
        float_column("counted", "Share of the kernel time whose kernels have all counters.", "1"),
    ),
    compute=layer_counters,
    chart=layer_bars(
        [
            Axis("flops", "FLOP per query", "FLOP"),
            Axis("dram_read_bytes", "DRAM reads", "By"),
            Axis("dram_write_bytes", "DRAM writes", "By"),
        ],
        "name",
        x=("layer", "Layer"),
        has_interval=False,
    ),
)
