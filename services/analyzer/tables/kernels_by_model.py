"""Kernels by model (A15): all kernels of a query together, a row a batch size."""

from collections.abc import Sequence
from typing import Any

from schemas.analysis import Table
from services.analyzer.ceilings import roof_notes
from services.analyzer.frames import PREDICT, Frames, Ns
from services.analyzer.tables.charts import roofline
from services.analyzer.tables.kernel_sums import (
    SUM_COLUMNS,
    Traced,
    kernel_doubts,
    no_kernels,
    traced_of,
    without_counters,
)
from services.analyzer.tables.stacks import STACK_COLUMNS
from services.analyzer.tables.static_points import model_point
from services.analyzer.tables.table import (
    Analysis,
    estimate,
    in_percent,
    in_time,
    made,
    real,
    share,
    text,
    trimmed_cells,
    truth,
    whole,
)


def kernels_by_model(frames: Frames) -> Table:
    """Return a row a load and batch size: every kernel counts, in whatever layer or in none."""
    traced = traced_of(frames)
    rows = sorted(
        (row for each in traced for row in model_rows(each)),
        key=lambda row: (row["agent"], row["scenario"], row["batch_size"]),
    )
    verdict = _verdict(rows) + without_counters(traced) if rows else no_kernels(frames)
    caveats = kernel_doubts(frames, traced)
    for each in traced:
        caveats += _static_notes(each)
    told = {row["run"] for row in rows if row["intensity"] is not None}
    caveats += roof_notes(each.run.row for each in traced if each.run.row.run in told)
    negative = [row["run"] for row in rows if row["is_negative"]]
    if negative:
        caveats.append(
            f"{', '.join(negative)}: kernels' summed time is above predict's: streams overlap, or "
            "predict does not wait for them; shown as it is"
        )
    return made(ANALYSIS, rows, verdict, caveats)


def _static_notes(traced: Traced) -> list[str]:
    """Return that a point is of shapes, and which work is not in it."""
    run = traced.run.row
    if traced.counted.has_counters:
        return []
    point, lacking = model_point(traced)
    if point["intensity"] is None:
        return []
    notes = [f"{run.run}: nobody counted; its work is what the shapes of its layers tell"]
    if lacking:
        notes.append(f"{run.run}: {lacking}: their work is not in its throughput")
    return notes


def _verdict(rows: list[dict[str, Any]]) -> str:
    last = rows[-1]
    part = f"{in_percent(last['gpu_share'])} of predict"
    if last["latency"] is None:
        part = f"{in_time(last['time'])} a query, of no known latency,"
    told = f"Kernels take {part} at batch {last['batch_size']}"
    bound = {True: ", memory-bound", False: ", compute-bound", None: ""}[last["memory_bound"]]
    others = [str(row["batch_size"]) for row in rows if row["memory_bound"]]
    where = f"; memory-bound at batch {', '.join(others)}" if others and len(rows) > 1 else ""
    return f"{told} ({last['run']}){bound}{where}."


def model_rows(traced: Traced) -> list[dict[str, Any]]:
    """Return the row of one stack, none where no kernel ran."""
    model = traced.model
    values: Sequence[int] | Ns = model.operator_ns(PREDICT) if model else ()
    latency = trimmed_cells("latency", values)
    model_ns = latency["latency"]
    is_counted = traced.counted.has_counters
    point = {} if is_counted else model_point(traced)[0]
    return [
        {
            **traced.stack.cells(traced.run),
            "model": traced.run.row.model,
            "latency_queries": len(values),
            **latency,
            **row,
            **point,
            "source": "counters" if is_counted else "static" if point["flops"] is not None else "",
            "ridge": traced.ceilings.ideal_intensity,
            "gpu_share": share(row["time"], model_ns),
            "is_negative": model_ns is not None and model_ns < row["time"],
            "unattributed_share": traced.run.unattributed_share,
            "of_roof": share(*({**row, **point}[name] for name in ("throughput", "roof"))),
        }
        for row in traced.sums()
    ]


ANALYSIS = Analysis(
    name="kernels_by_model",
    id="A15",
    title="Kernels by model and batch size (A15)",
    source=(
        "XSP A15 and its Figure 10: sums over all kernels of a query, trimmed mean over queries; "
        "predict's latency is of the run whose deepest level is model. GPU share = kernels' time "
        "over predict's. Without counters FLOP and intensity are sums over its layers' shapes."
    ),
    columns=(
        *STACK_COLUMNS,
        text("model", "The model."),
        whole("latency_queries", "Queries that its latency is over."),
        *estimate("latency", "Trimmed mean of predict a query, not a sample."),
        *SUM_COLUMNS,
        real("gpu_share", "Kernels' time over latency.", "1"),
        truth("is_negative", "Whether the kernels' time is above the latency."),
        real("unattributed_share", "Share of the kernels' time without a known layer.", "1"),
        real("of_roof", "Throughput over the roof.", "1"),
        real("ridge", "The ideal intensity: peak over bandwidth.", "FLOP/By"),
        text("source", "Of FLOP and intensity: counters, static (as shapes tell), '' for none."),
    ),
    compute=kernels_by_model,
    chart=roofline("batch_size", "model", "agent", "latency", "of_roof"),
)
