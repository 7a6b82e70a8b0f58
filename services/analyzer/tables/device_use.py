"""Device use: busy time of the device in a query, its gaps, and whether device or host bounds."""

from typing import Any

import polars as pl

from schemas.analysis import Table
from schemas.batch import SpanKind
from services.analyzer.building.busy import busy_ns
from services.analyzer.building.charts import Axis, bars
from services.analyzer.building.grouped import trimmed
from services.analyzer.building.kernel_sums import (
    TracedStack,
    kernel_warnings,
    no_timed_kernels,
    traced_stacks,
    without_replays,
)
from services.analyzer.building.margins import UNKNOWN, Margin, difference, mean_margin
from services.analyzer.building.pipelines.stages import PREPARE
from services.analyzer.building.stacks import STACK_COLUMNS
from services.analyzer.building.table import (
    Analysis,
    estimate_columns,
    float_column,
    format_share,
    int_column,
    make_table,
    percentile_cells,
    share,
    text_column,
    trimmed_cells,
)
from services.analyzer.frames.evaluation import OPERATOR_LEVEL, PREDICT, Frames
from services.analyzer.frames.kernels import answered_work, copies_of
from services.analyzer.tables.pipeline_stages import bottleneck_of

DEVICE_BOUND, HOST_BOUND = 0.8, 0.5
"""Shares of predict in which the device is busy: from the first on predict is device-bound, up to
the second host-bound, and between them mixed."""

INPUT_BOUND = "input-bound"
"""Predict waits for prepared samples: the intervals show that preparing them limits the run."""

MOST_COPIED = 0.1
"""The share of busy time with copies above which the verdict reports it."""


def device_use(frames: Frames) -> Table:
    """Return a row for each load: busy, idle and waiting time of its device per query."""
    traced = traced_stacks(frames)
    timed = without_replays(traced)
    rows = [_use_row(frames, stack) for stack in timed]
    verdict = no_timed_kernels(frames, traced)
    if rows:
        row = rows[-1]
        latency_run, copied = row["latency_run"], row["copy_share"] or 0.0
        is_same = latency_run in ("", row["run"])
        runs = row["run"] if is_same else f"{row['run']}, predict of {latency_run}"
        copies = f", {format_share(copied)} of that with copies" if copied > MOST_COPIED else ""
        verdict = (
            f"At batch {row['batch_size']} the device is busy for "
            f"{format_share(row['busy_share'])} of predict ({runs}){copies}: {row['bound']}."
        )
    notes = [
        f"{model.row.run}: no run stops at level model; its predict includes the cost of tracing "
        f"level {model.row.level_name}, so the device seems less busy"
        for stack in timed
        if (model := stack.stack.model) is not None and model.row.level > OPERATOR_LEVEL
    ]
    return make_table(ANALYSIS, rows, verdict, [*kernel_warnings(frames, traced), *notes])


def _use_row(frames: Frames, traced: TracedStack) -> dict[str, Any]:
    """Return the row of one stack: times per query (ns), and which side bounds predict."""
    work = answered_work(traced.run)
    unions = busy_ns(work, ["query"])
    busy = trimmed(unions, [], "busy_ns").to_dicts()[0]
    predict = trimmed_cells("predict", traced.run.operator_ns(PREDICT))
    predict_margin = Margin(predict["predict"], predict["predict_low"], predict["predict_high"])
    idle = difference(predict_margin, Margin(busy["mid"], busy["low"], busy["high"]))
    model, values = traced.stack.predicted, traced.stack.predict_ns
    latency = trimmed_cells("latency", values)
    busy_share = share(busy["mid"], latency["latency"])
    bound = "unknown, predict was not traced"
    if busy_share is not None:
        is_host_bound = busy_share <= HOST_BOUND
        bound = "host-bound" if is_host_bound else "mixed"
        bound = "device-bound" if busy_share >= DEVICE_BOUND else bound
    if bottleneck_of(frames, model or traced.run) == PREPARE:
        bound = INPUT_BOUND
    copies = busy_ns(copies_of(traced.run), ["query"])["busy_ns"]
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
        "busy_share": busy_share,
        "copy_share": share(float(copies.sum()), float(unions["busy_ns"].sum())),
        **_kind_cells(work, unions),
        **idle.cells("idle"),
        **_gap_cells(work),
        "unattributed_share": traced.run.unattributed_share,
        "bound": bound,
    }


def _kind_cells(work: pl.DataFrame, unions: pl.DataFrame) -> dict[str, Any]:
    """Return mean times per query in each kind of device work, and of work that overlaps."""
    kinds = {"kernels": SpanKind.KERNEL, "copies": SpanKind.COPY, "sets": SpanKind.SET}
    spent = pl.col("duration_ns")
    sums = work.group_by("query", maintain_order=True).agg(
        *(
            spent.filter(pl.col("kind") == int(kind)).sum().alias(name)
            for name, kind in kinds.items()
        ),
        overlap=spent.sum(),
    )
    by_query = sums.join(unions, on="query").with_columns(pl.col("overlap") - pl.col("busy_ns"))
    cells: dict[str, Any] = {}
    for name in (*kinds, "overlap"):
        cells |= mean_margin(by_query[name].to_numpy()).cells(name)
    return cells


def _gap_cells(work: pl.DataFrame) -> dict[str, Any]:
    """Return the gaps between device work of a query, and those that waited for the host.

    A gap waited for the host where the work after it was launched when the device was already
    idle.
    """
    ends = pl.col("start_ns") + pl.col("duration_ns")
    latest_end = ends.cum_max().shift(1).over("query", order_by="start_ns")
    gap = pl.max_horizontal(pl.col("start_ns") - pl.col("latest_end"), pl.lit(0))
    later = work.with_columns(latest_end.alias("latest_end")).with_columns(gap.alias("gap"))
    later = later.filter(pl.col("latest_end").is_not_null())
    launched_late = later.filter(pl.col("launch_ns") >= pl.col("latest_end"))
    delay = (work["start_ns"] - work["launch_ns"]).drop_nulls().to_numpy()
    queries = work.select("query").unique(maintain_order=True)
    gaps = later.filter(pl.col("gap") > 0)
    waiting = _mean_gap(queries, launched_late) if len(delay) else UNKNOWN
    return {
        "gaps": gaps.height / max(queries.height, 1),
        **_mean_gap(queries, gaps).cells("gap_total"),
        **percentile_cells("gap_median", gaps["gap"].to_numpy(), 0.5),
        **waiting.cells("waiting"),
        **percentile_cells("launch_delay", delay, 0.5),
    }


def _mean_gap(queries: pl.DataFrame, gaps: pl.DataFrame) -> Margin:
    """Return the mean over queries of the summed gaps of each, 0 for a query without gaps."""
    sums = gaps.group_by("query", maintain_order=True).agg(pl.col("gap").sum())
    return mean_margin(queries.join(sums, on="query", how="left")["gap"].fill_null(0).to_numpy())


ANALYSIS = Analysis(
    name="device_use",
    title="How the device is used",
    source=(
        "XSP IV's GPU share, by the union of device work, not its sum, since streams overlap. Gaps "
        "are between device work of a query; a gap is waiting if its next work was launched only "
        "when the device was idle. Device-bound: busy for "
        f"{DEVICE_BOUND:.0%} or more of predict in the run at level model; host-bound: "
        f"{HOST_BOUND:.0%} or less; input-bound: preparation is the bottleneck of a run whose "
        "queries overlap (`pipeline_stages`). Intervals: Student's t for means per query, order "
        "statistics for medians; that of idle combines those of predict and busy."
    ),
    columns=(
        *STACK_COLUMNS,
        int_column("queries", "Queries measured."),
        *estimate_columns("predict", "Trimmed mean of predict in the traced run."),
        text_column(
            "latency_run", "The run with the shallowest level that has predict, for the latency."
        ),
        int_column("latency_queries", "Queries of its latency."),
        *estimate_columns("latency", "Trimmed mean of predict in that run."),
        *estimate_columns("busy", "Trimmed mean of the time per query in which device work ran."),
        float_column("busy_share", "Busy divided by that latency.", "1"),
        float_column(
            "copy_share", "Share of the busy time in which copies ran, alone or with kernels.", "1"
        ),
        *estimate_columns("kernels", "Mean summed time of kernels per query."),
        *estimate_columns("copies", "Mean summed time of copies per query."),
        *estimate_columns("sets", "Mean summed time of memory sets per query."),
        *estimate_columns("overlap", "Summed time minus the union: work that overlaps."),
        *estimate_columns(
            "idle", "The traced run's predict minus busy; negative where work outlasts predict."
        ),
        float_column("gaps", "Gaps between device work per query.", "1"),
        *estimate_columns("gap_total", "Time of the gaps per query."),
        *estimate_columns("gap_median", "Median time of a gap."),
        *estimate_columns("waiting", "Time of the gaps that waited for a launch, per query."),
        *estimate_columns("launch_delay", "Median time from launch to start."),
        float_column("unattributed_share", "Share of the kernel time in no known layer.", "1"),
        text_column(
            "bound",
            "What limits predict: device-bound, mixed or host-bound; or input-bound: preparation "
            "limits the run.",
        ),
    ),
    compute=device_use,
    chart=bars(
        ("run", "Run"),
        Axis("busy_share", "Busy share of predict", "share"),
        "bound",
        "idle",
        color="bound",
        facet="",
        has_interval=False,
    ),
)
