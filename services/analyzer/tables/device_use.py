"""Device use: how long a query keeps its device busy, its idle and launch gaps, what binds it."""

from typing import Any

import numpy as np
import polars as pl

from schemas.analysis import Table
from schemas.batch import SpanKind
from services.analyzer.busy import busy_ns
from services.analyzer.frames import PREDICT, Frames
from services.analyzer.grouped import trimmed
from services.analyzer.tables.charts import bars
from services.analyzer.tables.kernel_frames import device_work
from services.analyzer.tables.kernel_sums import NO_KERNELS, Traced, kernel_doubts, traced_of
from services.analyzer.tables.stacks import STACK_COLUMNS
from services.analyzer.tables.table import (
    Analysis,
    estimate,
    in_percent,
    made,
    real,
    share,
    text,
    trimmed_cells,
    whole,
)

DEVICE_BOUND, HOST_BOUND = 0.8, 0.5
"""Shares of predict in which the device is busy: at the first and above the device is what binds,
at the second and below the host; between them neither alone."""


def device_use(frames: Frames) -> Table:
    """Return a row a load: busy, idle and waiting time of its device a query."""
    traced = traced_of(frames)
    rows = [_row(each) for each in traced]
    verdict = NO_KERNELS
    if rows:
        last = rows[-1]
        verdict = (
            f"At batch {last['batch_size']} the device is busy for "
            f"{in_percent(last['busy_share'])} of predict ({last['run']}): {last['bound']}."
        )
    return made(ANALYSIS, rows, verdict, kernel_doubts(frames, traced))


def _row(traced: Traced) -> dict[str, Any]:
    work = device_work(traced.run)
    unions = busy_ns(work, ["query"])
    busy = trimmed(unions, [], "busy_ns").to_dicts()[0]
    of_kind = {kind: _kind_ns(work, kind) for kind in SpanKind}
    gaps = _gaps(work)
    values = traced.run.operator_ns(PREDICT)
    predict = trimmed_cells("predict", values)
    part = share(busy["mid"], predict["predict"])
    return {
        **traced.stack.cells(traced.run),
        "queries": busy["n"],
        **predict,
        "busy": busy["mid"],
        "busy_low": busy["low"],
        "busy_high": busy["high"],
        "busy_share": part,
        "kernels": of_kind[SpanKind.KERNEL],
        "copies": of_kind[SpanKind.COPY],
        "sets": of_kind[SpanKind.SET],
        "overlap": sum(of_kind.values()) - float(unions["busy_ns"].sum()) / unions.height,
        "idle": None if predict["predict"] is None else predict["predict"] - busy["mid"],
        **gaps,
        "unattributed_share": traced.run.unattributed_share,
        "bound": _bound(part),
    }


def _bound(part: float | None) -> str:
    if part is None:
        return "unknown, predict was not traced"
    return (
        "device-bound" if part >= DEVICE_BOUND else "host-bound" if part <= HOST_BOUND else "mixed"
    )


def _kind_ns(work: pl.DataFrame, kind: SpanKind) -> float:
    """Return the mean time a query in one kind of device work."""
    total = work.filter(pl.col("kind") == int(kind))["duration_ns"].sum()
    return float(total) / max(work["query"].n_unique(), 1)


def _gaps(work: pl.DataFrame) -> dict[str, Any]:
    """Return idle stretches between device work of a query, and how many the host made.

    A gap is the host's where the work after it was launched when the device was idle already.
    """
    ends = pl.col("start_ns") + pl.col("duration_ns")
    reached = ends.cum_max().shift(1).over("query", order_by="start_ns")
    gap = pl.max_horizontal(pl.col("start_ns") - pl.col("reached"), pl.lit(0))
    found = work.with_columns(reached.alias("reached")).with_columns(gap.alias("gap"))
    found = found.filter(pl.col("reached").is_not_null())
    late = found.filter(pl.col("launch_ns") >= pl.col("reached"))
    delay = (work["start_ns"] - work["launch_ns"]).drop_nulls().to_numpy()
    queries = max(work["query"].n_unique(), 1)
    between = found.filter(pl.col("gap") > 0)["gap"]
    return {
        "gaps": len(between) / queries,
        "gap_total": float(between.sum()) / queries,
        "gap_median": float(np.median(between.to_numpy())) if len(between) else None,
        "waiting": float(late["gap"].sum()) / queries if len(delay) else None,
        "launch_delay": float(np.median(delay)) if len(delay) else None,
    }


ANALYSIS = Analysis(
    name="device_use",
    title="How the device is used",
    source=(
        "XSP IV's GPU share, by the union of device work and not its sum: streams overlap. Gaps "
        "lie between device work of a query; waiting is those whose next work was launched only "
        f"after the device had run dry. Busy for {DEVICE_BOUND:.0%} of predict or more is "
        f"device-bound, for {HOST_BOUND:.0%} or less host-bound."
    ),
    columns=(
        *STACK_COLUMNS,
        whole("queries", "Queries it is over."),
        *estimate("predict", "Trimmed mean of predict in the same, traced run."),
        *estimate("busy", "Trimmed mean of the time a query in which some device work ran."),
        real("busy_share", "Busy over predict.", "1"),
        real("kernels", "Mean summed time of kernels a query."),
        real("copies", "Mean summed time of copies a query."),
        real("sets", "Mean summed time of memory sets a query."),
        real("overlap", "Summed time less the union: work side by side."),
        real("idle", "Predict less busy; negative where work outlasts predict."),
        real("gaps", "Idle stretches between device work a query.", "1"),
        real("gap_total", "Their time a query."),
        real("gap_median", "Median of one."),
        real("waiting", "Time of those that waited for a launch, a query."),
        real("launch_delay", "Median time from launch to start."),
        real("unattributed_share", "Share of the kernels' time without a known layer.", "1"),
        text("bound", "device-bound, mixed or host-bound."),
    ),
    compute=device_use,
    chart=bars(("batch_size", "Batch size"), ("busy_share", "Busy share of predict"), "bound"),
)
