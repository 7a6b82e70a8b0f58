"""Requested counters of kernels, by layer, name of kernel and metric.

The counters of A8 to A12 (bytes, operations, occupancy) are in those tables. Kernels have the
layers of a traced run, by name and order, where it ran the same kernels as the replay; else those
of the replay's own ranges.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.building.kernel_sums import TracedStack, layer_label
from services.analyzer.building.stacks import stacks_of
from services.analyzer.building.table import (
    RUN_COLUMNS,
    Analysis,
    counter_warnings,
    float_column,
    format_share,
    int_column,
    make_table,
    of_first_run,
    run_cells,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import Frames, Run
from services.analyzer.frames.kernels import UNATTRIBUTED, kernels_of, layer_names
from services.analyzer.frames.replayed_counters import placed_as
from services.analyzer.frames.row_schemas import MOST_COUNTERS

_SUM = ".sum"
_GROUP = ("metric", "layer", "name")
_MOST_NAMED = 4
"""The most metrics that a verdict names."""

_Cells = dict[str, Any]


def kernel_counters(frames: Frames) -> Table:
    """Return a row for each run, metric, layer and name of kernel, in the order of launches."""
    traced_by_replay = {
        (replay.row.agent, replay.row.run): TracedStack(stack, stack.with_kernels)
        for stack in stacks_of(frames)
        if stack.with_kernels is not None and not stack.is_replay
        for replay in stack.counted
    }
    rows: list[_Cells] = []
    notes = counter_warnings(frames)
    for run in frames.measured:
        rows += _counter_rows(run, traced_by_replay.get((run.row.agent, run.row.run)))
        if run.counters.height >= MOST_COUNTERS:
            notes.append(f"{run.row.run}: only the first {MOST_COUNTERS} counters were read")
    return make_table(ANALYSIS, rows, _verdict(rows), notes)


def _verdict(rows: Sequence[_Cells]) -> str:
    if not rows:
        return (
            "No further kernel counters were requested (--collector ncu=metrics=A+B at level "
            "hardware); the usual ones are in A8 to A12."
        )
    first = of_first_run(rows)
    metrics = list(dict.fromkeys(row["metric"] for row in first))
    names = ", ".join(metrics[:_MOST_NAMED]) + (", …" if len(metrics) > _MOST_NAMED else "")
    verdict = f"In {rows[0]['run']} kernels have {many(len(metrics), 'further counter')}: {names}"
    sums = [row for row in first if row["total"]]
    if not sums:
        return f"{verdict}."
    of_metric = [row for row in sums if row["metric"] == sums[0]["metric"]]
    top = max(of_metric, key=lambda row: row["total"])
    part = format_share(share(top["total"], sum(row["total"] for row in of_metric)))
    layer = layer_label(top, of_metric, "layer_name")
    return f"{verdict}; {top['name']} in {layer} has {part} of {top['metric']}."


def _counter_rows(run: Run, traced: TracedStack | None) -> Iterator[_Cells]:
    """Yield a row for each metric, layer and name of the counted kernels of a `run`, a replay.

    Layers are those of the `traced` stack, where it ran the same kernels.
    """
    if not run.counters.height:
        return
    counted = run.device_work.join(run.counters.select("span").unique(), on="span", how="semi")
    in_order = counted.sort(pl.coalesce("launch_ns", "start_ns"), "start_ns", maintain_order=True)
    kernels = in_order.select("span", "layer", "name", "duration_ns")
    names = layer_names(run)
    if traced is not None:
        names |= traced.names
        kernels = placed_as(kernels, kernels_of(traced.run))
    value, ns = pl.col("value"), pl.col("duration_ns")
    groups = run.counters.join(kernels, on="span", maintain_order="left").group_by(
        _GROUP, maintain_order=True
    )
    sums = groups.agg(
        pl.len().alias("kernels"),
        value.sum().alias("total"),
        pl.when(ns.sum() > 0).then((value * ns).sum() / ns.sum()).otherwise(value.mean())
        .alias("mean"),
        value.min().alias("min"),
        value.max().alias("max"),
    )  # fmt: skip
    for row in sums.sort("metric", maintain_order=True).iter_rows(named=True):
        total = row["total"] if row["metric"].endswith(_SUM) else None
        layer_name = names.get(row["layer"], UNATTRIBUTED)
        yield {**run_cells(run.row), **row, "total": total, "layer_name": layer_name}


ANALYSIS = Analysis(
    name="kernel_counters",
    title="Requested counters by kernel",
    source=(
        "Nsight Compute's metrics of one replayed call; a mean over kernels is weighted by their "
        "time. Counters of a replay are not samples and have no interval."
    ),
    columns=(
        *RUN_COLUMNS,
        text_column("metric", "The metric's name in Nsight Compute."),
        int_column(
            "layer", "The framework's number of the layer; null for kernels of no known layer."
        ),
        text_column("layer_name", "The layer's name."),
        text_column("name", "The kernels' name."),
        int_column("kernels", "Counted kernels of this name in the layer."),
        float_column(
            "total",
            "Sum over them, in the metric's base unit; null for metrics that are not sums.",
            "1",
        ),
        float_column("mean", "Mean over them, weighted by kernel time.", "1"),
        float_column("min", "Minimum.", "1"),
        float_column("max", "Maximum.", "1"),
    ),
    compute=kernel_counters,
)
