"""Kernels: every kernel of a query, with its layer, time and counters (A8), most time first."""

from typing import Any

from mlscope.counts import many, verb
from schemas.analysis import Table
from services.analyzer.frames import Frames
from services.analyzer.tables.charts import bars
from services.analyzer.tables.kernel_frames import IDENTITY
from services.analyzer.tables.kernel_sums import (
    SUM_COLUMNS,
    Traced,
    kernel_doubts,
    no_kernels,
    traced_beside,
    without_counters,
)
from services.analyzer.tables.stacks import STACK_COLUMNS, VARIANT_COLUMN
from services.analyzer.tables.table import (
    Analysis,
    in_percent,
    in_time,
    made,
    real,
    share,
    text,
    whole,
)


def kernels(frames: Frames) -> Table:
    """Return a row a kernel: layer, name, and which of that name in its layer it is."""
    traced = traced_beside(frames)
    rows = [row for each in traced for row in kernel_rows(each)]
    verdict = no_kernels(frames)
    if rows:
        first = [row for row in rows if row["run"] == rows[0]["run"]]
        top, names = first[0], len({row["name"] for row in first})
        verdict = (
            f"{many(len(first), 'kernel')} of {many(names, 'name')} "
            f"{verb(len(first), 'runs', 'run')} a query in {top['run']}; the longest, "
            f"{top['name']} in layer {top['layer_name']}, takes "
            f"{in_time(top['time'])}, {in_percent(top['share'])} of predict."
            + without_counters(traced)
        )
    return made(ANALYSIS, rows, verdict, kernel_doubts(frames, traced))


def kernel_rows(traced: Traced) -> list[dict[str, Any]]:
    """Return the rows of one stack."""
    rows = [
        {
            **traced.stack.cells_beside(traced.run),
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
        "XSP A8 and III-D3: trimmed mean over queries of a kernel's execution, not of its launch; "
        "intensity = FLOP / (DRAM bytes read + written), memory-bound below the ideal one. Bytes "
        "are bytes: XSP's tables call MiB MB."
    ),
    columns=(
        *STACK_COLUMNS,
        VARIANT_COLUMN,
        whole("layer", "Index of its layer; null where none is known."),
        text("layer_name", "That layer's name."),
        text("name", "The kernel's name."),
        whole("nth", "Which kernel of this name in its layer, from 0."),
        *SUM_COLUMNS,
        real("share", "Share of predict's trimmed mean, of the run that tells of it.", "1"),
    ),
    compute=kernels,
    chart=bars(("layer", "Layer"), ("time", "Time a query (ns)"), "name", "layer_name"),
)
