"""Kernels by model (A15): all kernels of a query together, a row for each batch size."""

from typing import Any

from schemas.analysis import Table
from services.analyzer.building.charts import roofline
from services.analyzer.building.kernel_sums import (
    SUM_COLUMNS,
    TracedStack,
    kernel_warnings,
    no_kernels,
    traced_stacks,
    without_counters,
)
from services.analyzer.building.roofs.ceilings import roof_sentences
from services.analyzer.building.roofs.roof_position import (
    ROOF_COLUMNS,
    STATIC,
    above_roof_notes,
    error_text,
    roof_cells,
)
from services.analyzer.building.roofs.static_points import model_point
from services.analyzer.building.stacks import STACK_COLUMNS
from services.analyzer.building.table import (
    Analysis,
    bool_column,
    estimate_columns,
    float_column,
    format_share,
    format_time,
    int_column,
    make_table,
    share,
    text_column,
    trimmed_cells,
)
from services.analyzer.frames.evaluation import Frames


def kernels_by_model(frames: Frames) -> Table:
    """Return a row for each load and batch size, over all kernels, with or without a layer."""
    traced = traced_stacks(frames)
    rows = sorted(
        (row for stack in traced for row in model_rows(stack)),
        key=lambda row: (row["agent"], row["scenario"], row["batch_size"]),
    )
    verdict = _verdict(rows) + without_counters(traced) if rows else no_kernels(frames)
    caveats = kernel_warnings(frames, traced)
    for stack in (stack for stack in traced if not stack.counted.has_counters):
        run = stack.run.row.run
        point, missing = model_point(stack)
        if point["intensity"] is not None:
            caveats.append(f"{run}: no counters; its work is that of the shapes of its layers")
            caveats += [f"{run}: {missing}: it is not in the throughput"] if missing else []
    with_point = {row["run"] for row in rows if row["intensity"] is not None}
    caveats += roof_sentences(s.run.row for s in traced if s.run.row.run in with_point)
    caveats += above_roof_notes(rows, lambda row, _: f"batch {row['batch_size']}")
    negative = [row["run"] for row in rows if row["is_negative"]]
    if negative:
        caveats.append(
            f"{', '.join(negative)}: the summed kernel time is above predict: streams overlap, or "
            "predict does not wait for its kernels; shown as measured"
        )
    return make_table(ANALYSIS, rows, verdict, caveats)


def _verdict(rows: list[dict[str, Any]]) -> str:
    last = rows[-1]
    part = f"{format_share(last['gpu_share'])} of predict"
    if last["latency"] is None:
        part = f"{format_time(last['time'])} per query, of unknown latency,"
    bound = {True: ", memory-bound", False: ", compute-bound", None: ""}[last["memory_bound"]]
    sizes = [str(row["batch_size"]) for row in rows if row["memory_bound"]]
    memory_bound = f"; memory-bound at batch {', '.join(sizes)}" if sizes and len(rows) > 1 else ""
    return (
        f"Kernels take {part} at batch {last['batch_size']} ({last['run']}){bound}{memory_bound}."
        f"{error_text(rows)}"
    )


def model_rows(traced: TracedStack) -> list[dict[str, Any]]:
    """Return the row of one stack; none where no kernel ran."""
    values = traced.stack.predict_ns
    latency = trimmed_cells("latency", values)
    model_ns = latency["latency"]
    is_counted = traced.counted.has_counters
    point = {} if is_counted else model_point(traced)[0]
    source = "counters" if is_counted else STATIC if point["flops"] is not None else ""
    return [
        {
            **traced.stack.cells(traced.run),
            "model": traced.run.row.model,
            "latency_queries": len(values),
            **latency,
            **row,
            **point,
            "source": source,
            "ridge": traced.ceilings.ideal_intensity,
            "gpu_share": share(row["time"], model_ns),
            "is_negative": model_ns is not None and model_ns < row["time"],
            "unattributed_share": traced.run.unattributed_share,
            **roof_cells({**row, **point}, traced.ceilings, source),
        }
        for row in traced.sums()
    ]


ANALYSIS = Analysis(
    name="kernels_by_model",
    id="A15",
    title="Kernels by model and batch size (A15)",
    source=(
        "XSP A15 and its Figure 10: sums over all kernels of a query, trimmed mean over queries; "
        "the latency is that of predict in the run whose deepest level is model. GPU share = "
        "kernel time / latency. Without counters FLOP and intensity are sums over layers' shapes."
    ),
    columns=(
        *STACK_COLUMNS,
        text_column("model", "The model."),
        int_column("latency_queries", "Queries of its latency."),
        *estimate_columns("latency", "Trimmed mean of predict per query, not per sample."),
        *SUM_COLUMNS,
        float_column("gpu_share", "Kernel time divided by latency.", "1"),
        bool_column("is_negative", "Whether the kernel time is above the latency."),
        float_column("unattributed_share", "Share of the kernel time in no known layer.", "1"),
        *ROOF_COLUMNS,
        float_column("ridge", "The ideal intensity: peak / bandwidth.", "FLOP/By"),
        text_column(
            "source", "Source of FLOP and intensity: counters, static (shapes), '' for none."
        ),
    ),
    compute=kernels_by_model,
    chart=roofline("batch_size", "model", "agent", "latency", "of_roof", color="run"),
)
