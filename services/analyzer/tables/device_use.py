"""Device use: how long a query keeps its device busy, its idle and launch gaps, what binds it."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from schemas.analysis import Table
from schemas.batch import SpanKind
from services.analyzer.busy import busy_ns
from services.analyzer.frames import OPERATOR_LEVEL, PREDICT, Frames, Ns
from services.analyzer.grouped import trimmed
from services.analyzer.tables.charts import bars
from services.analyzer.tables.kernel_frames import device_work
from services.analyzer.tables.kernel_sums import (
    REPLAY_ALONE,
    Traced,
    kernel_doubts,
    no_kernels,
    timed_in,
    traced_of,
)
from services.analyzer.tables.margins import UNKNOWN, Margin, difference, mean_margin
from services.analyzer.tables.stacks import STACK_COLUMNS
from services.analyzer.tables.table import (
    Analysis,
    estimate,
    in_percent,
    made,
    percentile_cells,
    real,
    share,
    text,
    trimmed_cells,
    whole,
)

DEVICE_BOUND, HOST_BOUND = 0.8, 0.5
"""Shares of predict in which the device is busy: at the first and above the device is what binds,
at the second and below the host; between them neither alone."""

MOST_COPIED = 0.1
"""Share of a device's busy time above which the verdict says that copies run in it."""


def device_use(frames: Frames) -> Table:
    """Return a row a load: busy, idle and waiting time of its device a query."""
    traced = traced_of(frames)
    timed = timed_in(traced)
    rows = [_row(each) for each in timed]
    verdict = REPLAY_ALONE if traced else no_kernels(frames)
    if rows:
        verdict = _verdict(rows[-1])
    notes = [note for each in timed for note in _notes(each)]
    return made(ANALYSIS, rows, verdict, [*kernel_doubts(frames, traced), *notes])


def _verdict(row: dict[str, Any]) -> str:
    other = row["latency_run"]
    where = f"{row['run']}, predict of {other}" if other not in ("", row["run"]) else row["run"]
    copied = row["copy_share"] or 0.0
    copies = f", {in_percent(copied)} of that with copies" if copied > MOST_COPIED else ""
    return (
        f"At batch {row['batch_size']} the device is busy for {in_percent(row['busy_share'])} of "
        f"predict ({where}){copies}: {row['bound']}."
    )


def _notes(traced: Traced) -> Iterator[str]:
    """Yield where predict is as a deep trace slowed it."""
    model = traced.stack.model
    if model is not None and model.row.level > OPERATOR_LEVEL:
        yield (
            f"{model.row.run}: no run stops at level model; its predict holds the cost of tracing "
            f"level {model.row.level_name}, so that the device seems less busy"
        )


def _row(traced: Traced) -> dict[str, Any]:
    work = device_work(traced.run)
    unions = busy_ns(work, ["query"])
    busy = trimmed(unions, [], "busy_ns").to_dicts()[0]
    predict = trimmed_cells("predict", traced.run.operator_ns(PREDICT))
    model = traced.stack.model
    values: Sequence[int] | Ns = model.operator_ns(PREDICT) if model else ()
    latency = trimmed_cells("latency", values)
    idle = difference(_margin(predict, "predict"), Margin(busy["mid"], busy["low"], busy["high"]))
    part = share(busy["mid"], latency["latency"])
    copies = busy_ns(work.filter(pl.col("kind") == int(SpanKind.COPY)), ["query"])["busy_ns"]
    return {
        **traced.stack.cells(traced.run),
        "queries": busy["n"],
        **predict,
        "latency_run": model.row.run if model else "",
        "latency_queries": len(values),
        **latency,
        "busy": busy["mid"],
        "busy_low": busy["low"],
        "busy_high": busy["high"],
        "busy_share": part,
        "copy_share": share(float(copies.sum()), float(unions["busy_ns"].sum())),
        **_kinds(work, unions),
        **idle.cells("idle"),
        **_gaps(work),
        "unattributed_share": traced.run.unattributed_share,
        "bound": _bound(part),
    }


def _bound(part: float | None) -> str:
    if part is None:
        return "unknown, predict was not traced"
    return (
        "device-bound" if part >= DEVICE_BOUND else "host-bound" if part <= HOST_BOUND else "mixed"
    )


def _margin(cells: dict[str, Any], name: str) -> Margin:
    return Margin(*(cells[each] for each in (name, f"{name}_low", f"{name}_high")))


def _kinds(work: pl.DataFrame, unions: pl.DataFrame) -> dict[str, Any]:
    """Return mean times a query in each kind of device work, and what of them overlaps."""
    kinds = {"kernels": SpanKind.KERNEL, "copies": SpanKind.COPY, "sets": SpanKind.SET}
    spent = pl.col("duration_ns")
    sums = work.group_by("query").agg(
        *(
            spent.filter(pl.col("kind") == int(kind)).sum().alias(name)
            for name, kind in kinds.items()
        ),
        overlap=spent.sum(),
    )
    told = sums.join(unions, on="query").with_columns(pl.col("overlap") - pl.col("busy_ns"))
    return {
        cell: value
        for name in (*kinds, "overlap")
        for cell, value in mean_margin(told[name].to_numpy()).cells(name).items()
    }


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
    queries = work.select("query").unique()
    between = found.filter(pl.col("gap") > 0)
    waiting = _a_query(queries, late) if len(delay) else UNKNOWN
    return {
        "gaps": between.height / max(queries.height, 1),
        **_a_query(queries, between).cells("gap_total"),
        **percentile_cells("gap_median", between["gap"].to_numpy(), 0.5),
        **waiting.cells("waiting"),
        **percentile_cells("launch_delay", delay, 0.5),
    }


def _a_query(queries: pl.DataFrame, gaps: pl.DataFrame) -> Margin:
    """Return the mean over queries of the summed gaps in each, 0 where it has none."""
    sums = gaps.group_by("query").agg(pl.col("gap").sum())
    return mean_margin(queries.join(sums, on="query", how="left")["gap"].fill_null(0).to_numpy())


ANALYSIS = Analysis(
    name="device_use",
    title="How the device is used",
    source=(
        "XSP IV's GPU share, by the union of device work and not its sum: streams overlap. Gaps "
        "lie between device work of a query; waiting is those whose next work was launched only "
        f"after the device had run dry. Busy for {DEVICE_BOUND:.0%} or more of predict, as nothing "
        f"deeper slowed it, is device-bound, for {HOST_BOUND:.0%} or less host-bound. Means a "
        "query have Student's t, medians order statistics, idle the margins of both that it lies "
        "between."
    ),
    columns=(
        *STACK_COLUMNS,
        whole("queries", "Queries it is over."),
        *estimate("predict", "Trimmed mean of predict in the same, traced run."),
        text("latency_run", "The run traced least that has predict: its latency is set against."),
        whole("latency_queries", "Queries that its latency is over."),
        *estimate("latency", "Trimmed mean of predict in that run."),
        *estimate("busy", "Trimmed mean of the time a query in which some device work ran."),
        real("busy_share", "Busy over that latency.", "1"),
        real(
            "copy_share", "Share of the busy time in which copies ran, kernels beside or not.", "1"
        ),
        *estimate("kernels", "Mean summed time of kernels a query."),
        *estimate("copies", "Mean summed time of copies a query."),
        *estimate("sets", "Mean summed time of memory sets a query."),
        *estimate("overlap", "Summed time less the union: work side by side."),
        *estimate("idle", "The traced run's predict less busy; negative where work outlasts it."),
        real("gaps", "Idle stretches between device work a query.", "1"),
        *estimate("gap_total", "Their time a query."),
        *estimate("gap_median", "Median of one."),
        *estimate("waiting", "Time of those that waited for a launch, a query."),
        *estimate("launch_delay", "Median time from launch to start."),
        real("unattributed_share", "Share of the kernels' time without a known layer.", "1"),
        text("bound", "device-bound, mixed or host-bound."),
    ),
    compute=device_use,
    chart=bars(("batch_size", "Batch size"), ("busy_share", "Busy share of predict"), "bound"),
)
