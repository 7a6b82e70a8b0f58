"""Kernels by name (A10): all kernels of one name together, longest time first."""

from mlscope.counts import counted, many
from schemas.analysis import Table
from services.analyzer.building.charts import Axis, ranked
from services.analyzer.building.kernel_sums import (
    SUM_COLUMNS,
    kernel_warnings,
    no_kernels,
    traced_stacks,
    without_counters,
)
from services.analyzer.building.stacks import STACK_COLUMNS
from services.analyzer.building.table import (
    Analysis,
    float_column,
    format_share,
    make_table,
    ranked_by_time,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import Frames


def kernels_by_name(frames: Frames) -> Table:
    """Return a row for each name of kernels in a run."""
    traced = traced_stacks(frames)
    rows = []
    for stack in traced:
        of_stack = (
            {
                **stack.stack.cells(stack.run),
                **row,
                "share": share(row["time"], stack.model_ns),
            }
            for row in stack.sums("name")
        )
        rows += ranked_by_time(of_stack, "share_of_kernels")
    verdict = no_kernels(frames)
    if rows:
        top = rows[0]
        names = sum(row["run"] == top["run"] for row in rows)
        verdict = (
            f"{top['name']} takes {format_share(top['share_of_kernels'])} of the kernel time in "
            f"{top['run']} with {counted(top['calls'], 'call')} per query; its kernels have "
            f"{many(names, 'name')}." + without_counters(traced)
        )
    return make_table(ANALYSIS, rows, verdict, kernel_warnings(frames, traced))


ANALYSIS = Analysis(
    name="kernels_by_name",
    id="A10",
    title="Kernels by name (A10)",
    source=(
        "XSP A10: sums over a query's kernels of one name, trimmed mean over queries; occupancy "
        "weighted by kernel time, intensity and throughput from the sums."
    ),
    columns=(
        *STACK_COLUMNS,
        text_column("name", "Name of the kernels."),
        *SUM_COLUMNS,
        float_column("share_of_kernels", "Share of the sum of all names' trimmed means.", "1"),
        float_column(
            "share", "Share of the trimmed mean of predict in the run with the least tracing.", "1"
        ),
    ),
    compute=kernels_by_name,
    chart=ranked(("name", "Kernel"), Axis("time", "Time per query", "ns"), "calls", "share"),
)
