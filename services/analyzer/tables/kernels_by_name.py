"""Kernels by name (A10): all kernels of one name together, most time first."""

from typing import Any

from mlscope.counts import counted, many, verb
from schemas.analysis import Table
from services.analyzer.frames import Frames
from services.analyzer.tables.charts import pie
from services.analyzer.tables.kernel_sums import (
    SUM_COLUMNS,
    Traced,
    kernel_doubts,
    no_kernels,
    traced_of,
    without_counters,
)
from services.analyzer.tables.stacks import STACK_COLUMNS
from services.analyzer.tables.table import Analysis, in_percent, made, ranked, real, share, text


def kernels_by_name(frames: Frames) -> Table:
    """Return a row a kernel's name."""
    traced = traced_of(frames)
    rows = [row for each in traced for row in _rows(each)]
    verdict = no_kernels(frames)
    if rows:
        top = rows[0]
        names = sum(row["run"] == top["run"] for row in rows)
        verdict = (
            f"{top['name']} takes {in_percent(top['share_of_kernels'])} of the kernels' time in "
            f"{top['run']} with {counted(top['calls'], 'call')} a query; "
            f"{many(names, 'name')} {verb(names, 'runs', 'run')}." + without_counters(traced)
        )
    return made(ANALYSIS, rows, verdict, kernel_doubts(frames, traced))


def _rows(traced: Traced) -> list[dict[str, Any]]:
    rows = (
        {
            **traced.stack.cells(traced.run),
            **row,
            "share": share(row["time"], traced.model_ns),
        }
        for row in traced.sums("name")
    )
    return ranked(rows, "share_of_kernels")


ANALYSIS = Analysis(
    name="kernels_by_name",
    id="A10",
    title="Kernels by name (A10)",
    source=(
        "XSP A10: sums over a query's kernels of one name, trimmed mean over queries; occupancy "
        "weighted by latency, intensity and throughput of the sums."
    ),
    columns=(
        *STACK_COLUMNS,
        text("name", "The kernels' name."),
        *SUM_COLUMNS,
        real("share_of_kernels", "Share of the names' summed trimmed means.", "1"),
        real("share", "Share of predict's trimmed mean, of the run that tells of it.", "1"),
    ),
    compute=kernels_by_name,
    chart=pie(("time", "Time a query (ns)"), "name"),
)
