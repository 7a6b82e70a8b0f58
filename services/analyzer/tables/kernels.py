"""Kernels (A8): every kernel of a query with its layer, time and counters, longest first."""

from typing import Any

from mlscope.counts import many, verb
from schemas.analysis import Table
from services.analyzer.building.best import leader
from services.analyzer.building.charts import Axis, layer_bars
from services.analyzer.building.kernel_sums import (
    SUM_COLUMNS,
    TracedStack,
    kernel_warnings,
    no_kernels,
    traced_with_serialised,
    without_counters,
)
from services.analyzer.building.stacks import STACK_COLUMNS, VARIANT_COLUMN
from services.analyzer.building.table import (
    Analysis,
    float_column,
    format_share,
    format_time,
    int_column,
    make_table,
    of_first_run,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import Frames
from services.analyzer.frames.kernels import IDENTITY


def kernels(frames: Frames) -> Table:
    """Return a row for each kernel, identified by layer, name and number in its layer."""
    traced = traced_with_serialised(frames)
    rows = [row for stack in traced for row in kernel_rows(stack)]
    verdict = no_kernels(frames)
    if rows:
        first = of_first_run(rows)
        names = len({row["name"] for row in first})
        longest = leader(first, "time")

        def name_of(row: dict[str, Any]) -> str:
            return f"{row['name']} in layer {row['layer_name']}"

        text = longest.doubt("which is the longest", name_of, IDENTITY)
        if not text:
            row = longest.row
            part = f"{format_time(row['time'])}, {format_share(row['share'])} of predict"
            text = f"the longest, {name_of(row)}, takes {part}"
        verdict = (
            f"{many(len(first), 'kernel')} of {many(names, 'name')} "
            f"{verb(len(first), 'runs', 'run')} per query in {first[0]['run']}; "
            f"{text}." + without_counters(traced)
        )
    return make_table(ANALYSIS, rows, verdict, kernel_warnings(frames, traced))


def kernel_rows(traced: TracedStack) -> list[dict[str, Any]]:
    """Return the rows of one stack, longest time first."""
    rows = [
        {
            **traced.stack.cells_with_variant(traced.run),
            **row,
            "layer_name": traced.names.get(row["layer"], ""),
            "share": share(row["time"], traced.model_ns),
        }
        for row in traced.sums(*IDENTITY)
    ]
    return sorted(rows, key=lambda row: -row["time"])


ANALYSIS = Analysis(
    name="kernels",
    id="A8",
    title="Kernels (A8)",
    source=(
        "XSP A8 and III-D3: trimmed mean over queries of a kernel's execution, without its launch; "
        "intensity = FLOP / (DRAM bytes read + written), memory-bound below the ideal one "
        "(XSP's tables write MB for MiB)."
    ),
    columns=(
        *STACK_COLUMNS,
        VARIANT_COLUMN,
        int_column("layer", "The framework's number of its layer; null where unknown."),
        text_column("layer_name", "Name of the layer."),
        text_column("name", "The kernel's name."),
        int_column("nth", "Number of the kernel among those of its name in its layer, from 0."),
        *SUM_COLUMNS,
        float_column(
            "share", "Share of the trimmed mean of predict in the run with the least tracing.", "1"
        ),
    ),
    compute=kernels,
    chart=layer_bars(
        Axis("time", "Kernel time per query", "ns"),
        "layer_name",
        x=("layer", "Layer"),
        color="name",
        has_interval=False,
    ),
)
