"""GPU and non-GPU latency by layer (A13): the part of a layer's latency outside of its kernels.

Where launches return at once, a layer's latency only covers its launches, and its kernels run on
after it. The difference is non-GPU time only in a serialised run, which waits for each launch as
XSP's own runs did (CUDA_LAUNCH_BLOCKING=1); otherwise only that of the whole predict is known.
"""

from collections import Counter
from typing import Any

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.building.best import leader
from services.analyzer.building.charts import Axis, stacked
from services.analyzer.building.kernel_sums import (
    TracedStack,
    kernel_warnings,
    no_timed_kernels,
    run_label,
    traced_with_serialised,
    verdict_rows,
    without_replays,
)
from services.analyzer.building.margins import Margin
from services.analyzer.building.side_by_side import ambiguous_parents
from services.analyzer.building.stacks import STACK_COLUMNS, VARIANT_COLUMN, launch_warnings
from services.analyzer.building.table import (
    Analysis,
    bool_column,
    distinct_name,
    estimate_columns,
    float_column,
    format_share,
    format_time,
    int_column,
    make_table,
    share,
    text_column,
)
from services.analyzer.frames.evaluation import LAYER_LEVEL, Frames
from services.analyzer.frames.layers import layers_of, no_layers

_NO_KERNELS = {"queries": 0, "calls": 0.0, "time": 0.0, "time_low": 0.0, "time_high": 0.0}
"""The sums of a layer without kernels; the table shows no interval of them."""


def gpu_and_rest(frames: Frames) -> Table:
    """Return a row for each layer: its latency, its kernel time, and the difference as it is.

    Rows of serialised runs follow those of plain ones; the verdict is about them where they exist.
    """
    stacks = traced_with_serialised(frames)
    traced = without_replays(stacks)
    rows = [row for stack in traced for row in layer_rows(stack)]
    verdict = no_timed_kernels(frames, stacks)
    if traced:
        verdict = _verdict(rows, traced) if rows else no_layers(frames)
    notes = list(ambiguous_parents([stack.run for stack in traced]))
    notes += launch_warnings([stack.stack for stack in traced])
    negative = Counter(row["run"] for row in rows if row["is_negative"])
    notes += [
        f"{run}: {many(count, 'layer')} with negative non-GPU time: kernels ran on after the "
        "host's call returned, or in parallel; shown as measured"
        for run, count in negative.items()
    ]
    notes += [
        f"{stack.run.row.run}: the latency of layers is from {layered.row.run} at level "
        f"{layered.row.level_name}, not from a run that stops at level framework"
        for stack in traced
        if (layered := stack.stack.layered) is not None and layered.row.level != LAYER_LEVEL
    ]
    return make_table(ANALYSIS, rows, verdict, [*kernel_warnings(frames, traced), *notes])


def _verdict(rows: list[dict[str, Any]], traced: list[TracedStack]) -> str:
    first = verdict_rows(rows)
    if not first[0]["variant"] and any(row["is_negative"] for row in first):
        stack = next(stack for stack in traced if stack.run.row.run == first[0]["run"])
        part = share(stack.kernels_ns, stack.model_ns)
        return (
            f"Kernels take {format_share(part)} of predict; non-GPU time by layer is unknown in "
            f"{stack.run.row.run}, which is not serialised: kernels outlast their layers' calls."
        )
    latency, gpu = (sum(row[name] for row in first) for name in ("latency", "gpu"))
    top = leader(first, "non_gpu")
    name, time = distinct_name(top.row, first, "index"), format_time(top.row["non_gpu"])
    non_gpu = f"layer {name} has the most non-GPU time, {time}"
    question = "which layer has the most non-GPU time"
    if doubt := top.doubt(question, lambda row: distinct_name(row, first, "index")):
        non_gpu = doubt
    if top.row["is_negative"]:
        non_gpu = "no layer takes longer than its kernels"
    return (
        f"Kernels take {format_share(share(gpu, latency))} of the latency of "
        f"{many(len(first), 'layer')} in {run_label(first[0])}; {non_gpu}."
    )


def layer_rows(traced: TracedStack) -> list[dict[str, Any]]:
    """Return a row for each layer of a stack that ran, in execution order; none without layers."""
    layered = traced.stack.layered
    if layered is None:
        return []
    kernels = {row["layer"]: row for row in traced.sums("layer")}
    rows = []
    for layer in layers_of(layered).filter(layers_of(layered)["queries"] > 0).to_dicts():
        # Kernels have the index of their layer; of several layers with it, the first gets them.
        own = kernels.pop(layer["node"], _NO_KERNELS)
        latency = Margin(layer["time"], layer["time_low"], layer["time_high"])
        gpu = Margin(own["time"], own["time_low"], own["time_high"])
        non_gpu = layer["time"] - own["time"]
        # The interval spans the ends of both, so it is never too narrow.
        low = high = None
        if None not in (latency.low, latency.high, gpu.low, gpu.high):
            low, high = layer["time_low"] - own["time_high"], layer["time_high"] - own["time_low"]
        is_known = own is not _NO_KERNELS
        row = {
            **traced.stack.cells_with_variant(traced.run),
            "index": layer["place"],
            "layer": layer["node"],
            "name": layer["name"],
            "type": layer["type"],
            "latency_queries": layer["queries"],
            **latency.cells("latency"),
            "gpu_queries": own["queries"],
            "kernels": own["calls"],
            **(gpu if is_known else Margin(gpu.value)).cells("gpu"),
            **Margin(non_gpu, low, high).cells("non_gpu"),
            "gpu_share": share(own["time"], layer["time"]),
            "is_negative": non_gpu < 0.0,
        }
        rows.append(row)
    return rows


ANALYSIS = Analysis(
    name="gpu_and_rest",
    id="A13",
    title="GPU and non-GPU latency by layer (A13)",
    source=(
        "XSP A13: non-GPU = layer latency - sum of kernel latency. The layer's latency is from the "
        "run whose deepest level is framework, the kernel latency from level system; each has its "
        "own interval, and that of the difference spans the ends of both. XSP's runs were "
        "serialised (CUDA_LAUNCH_BLOCKING=1): such runs have rows of their own, with both times."
    ),
    columns=(
        *STACK_COLUMNS,
        VARIANT_COLUMN,
        int_column("index", "Position in execution order, from 0."),
        int_column("layer", "The framework's number of the layer; -1 without one."),
        text_column("name", "The layer's name."),
        text_column("type", "The layer's type."),
        int_column("latency_queries", "Queries of its latency."),
        *estimate_columns("latency", "Trimmed mean of the layer's own time per query."),
        int_column("gpu_queries", "Queries of its kernel time; 0 without kernels."),
        float_column("kernels", "Kernels of the layer per query.", "1"),
        *estimate_columns("gpu", "Trimmed mean of the layer's kernel time per query."),
        *estimate_columns("non_gpu", "Latency minus GPU; may be negative."),
        float_column(
            "gpu_share", "GPU divided by latency; above 1 where non-GPU is negative.", "1"
        ),
        bool_column("is_negative", "Whether non-GPU is below 0."),
    ),
    compute=gpu_and_rest,
    chart=stacked(
        ("index", "Layer"),
        {"gpu": "GPU", "non_gpu": "not GPU"},
        Axis("", "Share of latency"),
        "name",
        "type",
        is_normalised=True,
    ),
)
