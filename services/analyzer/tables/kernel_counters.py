"""Counters of kernels that were asked for, by layer, name of kernel and metric.

What A8 to A12 are made of (bytes, operations, occupancy) is left to them. Kernels lie in the
layers that they have there: a traced run's beside the replay, by name and order, where both ran the
same; else in those that the replay's own ranges tell.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.frames import Frames, Run
from services.analyzer.row_schemas import MOST_COUNTERS
from services.analyzer.tables.kernel_frames import (
    UNATTRIBUTED,
    kernels_of,
    layer_names,
    placed_as,
)
from services.analyzer.tables.kernel_sums import Traced
from services.analyzer.tables.stacks import stacks_of
from services.analyzer.tables.table import (
    RUN_COLUMNS,
    Analysis,
    in_percent,
    made,
    real,
    run_cells,
    share,
    text,
    trace_doubts,
    whole,
)

_SUM = ".sum"
_GROUP = ("metric", "layer", "name")
_NAMED = 4
"""Metrics that a verdict names."""

_Cells = dict[str, Any]


def kernel_counters(frames: Frames) -> Table:
    """Return a row a run, metric, layer and name of kernel, in the order of the launches."""
    beside = {
        (replay.row.agent, replay.row.run): Traced(stack, stack.traced)
        for stack in stacks_of(frames)
        if stack.traced is not None and not stack.is_replay
        for replay in stack.counted
    }
    rows = [
        row
        for run in frames.measured
        for row in _rows(run, beside.get((run.row.agent, run.row.run)))
    ]
    full = (
        f"{run.row.run}: the first counters were read, {MOST_COUNTERS} of them"
        for run in frames.measured
        if run.counters.height >= MOST_COUNTERS
    )
    return made(ANALYSIS, rows, _verdict(rows), [*trace_doubts(frames), *full])


def _verdict(rows: Sequence[_Cells]) -> str:
    if not rows:
        return (
            "No further counter of kernels was asked for (--collector ncu=metrics=A+B at level "
            "hardware); the usual ones are in A8 to A12."
        )
    mine = [row for row in rows if row["run"] == rows[0]["run"]]
    metrics = list(dict.fromkeys(row["metric"] for row in mine))
    named = ", ".join(metrics[:_NAMED]) + (", …" if len(metrics) > _NAMED else "")
    told = f"In {rows[0]['run']} kernels have {many(len(metrics), 'further counter')}: {named}"
    sums = [row for row in mine if row["total"]]
    if not sums:
        return f"{told}."
    summed = [row for row in sums if row["metric"] == sums[0]["metric"]]
    top = max(summed, key=lambda row: row["total"])
    part = in_percent(share(top["total"], sum(row["total"] for row in summed)))
    where = f"layer {top['layer_name']}" if top["layer"] is not None else "no known layer"
    return f"{told}; {part} of {top['metric']} are {top['name']}'s in {where}."


def _rows(run: Run, traced: Traced | None) -> Iterator[_Cells]:
    if not run.counters.height:
        return
    names, kernels = layer_names(run), _counted(run)
    if traced is not None:
        names |= traced.names
        kernels = placed_as(kernels, kernels_of(traced.run))
    value, ns = pl.col("value"), pl.col("duration_ns")
    found = run.counters.join(kernels, on="span", maintain_order="left").group_by(
        _GROUP, maintain_order=True
    )
    sums = found.agg(
        pl.len().alias("kernels"),
        value.sum().alias("total"),
        pl.when(ns.sum() > 0).then((value * ns).sum() / ns.sum()).otherwise(value.mean())
        .alias("mean"),
        value.min().alias("min"),
        value.max().alias("max"),
    )  # fmt: skip
    for row in sums.sort("metric", maintain_order=True).iter_rows(named=True):
        is_sum = row["metric"].endswith(_SUM)
        total = row["total"] if is_sum else None
        layer_name = names.get(row["layer"], UNATTRIBUTED)
        yield {**run_cells(run.row), **row, "total": total, "layer_name": layer_name}


def _counted(run: Run) -> pl.DataFrame:
    """Return the kernels that have counters in their order: span, layer, name, duration_ns."""
    found = run.kernels.join(run.counters.select("span").unique(), on="span", how="semi")
    rising = found.sort(pl.coalesce("launch_ns", "start_ns"), "start_ns", maintain_order=True)
    return rising.select("span", "layer", "name", "duration_ns")


ANALYSIS = Analysis(
    name="kernel_counters",
    title="Counters asked for, by kernel",
    source=(
        "Nsight Compute's metrics as it gives them, of one call replayed; a mean over kernels is "
        "weighted by their time. Counters of a replay are no samples: no interval."
    ),
    columns=(
        *RUN_COLUMNS,
        text("metric", "The metric's name in Nsight Compute."),
        whole("layer", "The layer's index; null: of kernels that belong to no known layer."),
        text("layer_name", "The layer's name."),
        text("name", "The kernels' name."),
        whole("kernels", "Kernels of this name in the layer that were counted."),
        real("total", "Sum over them, in the metric's base unit; null of what is no sum.", "1"),
        real("mean", "Mean over them, weighted by their time.", "1"),
        real("min", "The least.", "1"),
        real("max", "The most.", "1"),
    ),
    compute=kernel_counters,
)
