"""GPU and non-GPU latency (A13): what of each layer's latency its kernels do not explain.

Where launches return at once a layer's latency is theirs, and its kernels run on after it. Only of
a serialised run, in which each launch is waited for, is the difference non-GPU time, as in XSP's
own runs (CUDA_LAUNCH_BLOCKING=1); else predict as a whole tells.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from mlscope.counts import many
from schemas.analysis import Table
from services.analyzer.frames import LAYER_LEVEL, Frames
from services.analyzer.tables.charts import stacked
from services.analyzer.tables.kernel_sums import (
    REPLAY_ALONE,
    Traced,
    kernel_doubts,
    no_kernels,
    run_named,
    telling,
    timed_in,
    traced_beside,
)
from services.analyzer.tables.layer_frames import layers_of, no_layers
from services.analyzer.tables.side_by_side import ambiguous_parents
from services.analyzer.tables.stacks import SERIALISED, STACK_COLUMNS, VARIANT_COLUMN
from services.analyzer.tables.table import (
    Analysis,
    estimate,
    in_percent,
    in_time,
    made,
    real,
    share,
    text,
    truth,
    whole,
)

_NOTHING = {"queries": 0, "calls": 0.0, "time": 0.0, "time_low": None, "time_high": None}


def gpu_and_rest(frames: Frames) -> Table:
    """Return a row a layer: its latency, its kernels', and the difference, negative as it is.

    Serialised runs' rows come behind plain ones'; the verdict is of theirs where there are some.
    """
    found = traced_beside(frames)
    traced = timed_in(found)
    rows = [row for each in traced for row in _rows(each)]
    none = REPLAY_ALONE if found else no_kernels(frames)
    verdict = _verdict(rows, traced) if rows else no_layers(frames) if traced else none
    unclear = ambiguous_parents([each.run for each in traced])
    notes = [*unclear, *_asynchronous(traced), *_negative(rows), *_depths(traced)]
    return made(ANALYSIS, rows, verdict, [*kernel_doubts(frames, traced), *notes])


def _asynchronous(traced: list[Traced]) -> Iterator[str]:
    """Yield which plain runs' difference may not be non-GPU time, and what tells it."""
    alone = {
        (each.stack.agent, each.stack.batch_size): each.run.row.run
        for each in traced
        if each.stack.variant == SERIALISED
    }
    for each in traced:
        if each.stack.variant == SERIALISED or each.stack.layered is None:
            continue
        told = alone.get((each.stack.agent, each.stack.batch_size))
        remedy = f"{told}, serialised, tells" if told else "request it serialised, which tells"
        yield (
            f"{each.run.row.run}: nobody waited for launches, so that a layer's latency may be "
            f"that of its launches alone, not of its kernels: {remedy}"
        )


def _negative(rows: list[dict[str, Any]]) -> Iterator[str]:
    counts = Counter(row["run"] for row in rows if row["is_negative"])
    for run, count in counts.items():
        yield (
            f"{run}: {many(count, 'layer')} with negative non-GPU time: kernels run on after the "
            "host's call returned, or side by side; shown as it is"
        )


def _depths(traced: list[Traced]) -> list[str]:
    return [
        f"{each.run.row.run}: layers' latency is of {layered.row.run}, level "
        f"{layered.row.level_name}, not of a run that stops at level framework"
        for each in traced
        if (layered := each.stack.layered) is not None and layered.row.level != LAYER_LEVEL
    ]


def _verdict(rows: list[dict[str, Any]], traced: list[Traced]) -> str:
    first = telling(rows)
    if not first[0]["variant"] and any(row["is_negative"] for row in first):
        return _of_predict(next(each for each in traced if each.run.row.run == first[0]["run"]))
    latency, gpu = (sum(row[name] for row in first) for name in ("latency", "gpu"))
    most = max(first, key=lambda row: row["non_gpu"])
    rest = f"layer {most['name']} has most non-GPU time, {in_time(most['non_gpu'])}"
    if most["is_negative"]:
        rest = "in none of them is time left beside its kernels'"
    return (
        f"Kernels take {in_percent(share(gpu, latency))} of the latency of "
        f"{many(len(first), 'layer')} in {run_named(first[0])}; {rest}."
    )


def _of_predict(traced: Traced) -> str:
    """Return what is known where kernels outlast the calls of their layers."""
    (whole_query,) = traced.sums()
    part = share(whole_query["time"], traced.model_ns)
    return (
        f"Kernels take {in_percent(part)} of predict; non-GPU time by layer is unknown in "
        f"{traced.run.row.run}, which is not serialised: kernels outlast their layers' calls."
    )


def _rows(traced: Traced) -> list[dict[str, Any]]:
    layered = traced.stack.layered
    if layered is None:
        return []
    kernels = {row["layer"]: row for row in traced.sums("layer")}
    ran = layers_of(layered).filter(layers_of(layered)["queries"] > 0)
    seen: set[int] = set()
    rows = []
    for layer in ran.to_dicts():
        # Kernels know a layer's index; of layers that share one, the first has them.
        own = kernels.get(layer["node"], _NOTHING) if layer["node"] not in seen else _NOTHING
        seen.add(layer["node"])
        rows.append({**traced.stack.cells_beside(traced.run), **_cells(layer, own)})
    return rows


def _cells(layer: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    low, high = _difference(layer, own)
    non_gpu = layer["time"] - own["time"]
    return {
        "index": layer["place"],
        "layer": layer["node"],
        "name": layer["name"],
        "type": layer["type"],
        "latency_queries": layer["queries"],
        "latency": layer["time"],
        "latency_low": layer["time_low"],
        "latency_high": layer["time_high"],
        "gpu_queries": own["queries"],
        "kernels": own["calls"],
        "gpu": own["time"],
        "gpu_low": own["time_low"],
        "gpu_high": own["time_high"],
        "non_gpu": non_gpu,
        "non_gpu_low": low,
        "non_gpu_high": high,
        "gpu_share": share(own["time"], layer["time"]),
        "is_negative": non_gpu < 0.0,
    }


def _difference(layer: dict[str, Any], own: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return the interval of a difference: from the ends of both, so never too narrow."""
    ends = layer["time_low"], layer["time_high"]
    if None in ends:
        return None, None
    theirs = (own["time_low"], own["time_high"]) if own is not _NOTHING else (0.0, 0.0)
    if None in theirs:
        return None, None
    return ends[0] - theirs[1], ends[1] - theirs[0]


ANALYSIS = Analysis(
    name="gpu_and_rest",
    id="A13",
    title="GPU and non-GPU latency by layer (A13)",
    source=(
        "XSP A13: non-GPU = layer latency - sum of kernel latency. The layer's is of the run whose "
        "deepest level is framework, the kernels' of level system; each has its own interval, the "
        "difference spans the ends of both. XSP's runs were serialised (CUDA_LAUNCH_BLOCKING=1): "
        "such runs have rows of their own, with both times from them."
    ),
    columns=(
        *STACK_COLUMNS,
        VARIANT_COLUMN,
        whole("index", "Place in execution order, from 0."),
        whole("layer", "The framework's own number for it; -1 when it has none."),
        text("name", "The layer's name."),
        text("type", "Its type."),
        whole("latency_queries", "Queries that its latency is over."),
        *estimate("latency", "Trimmed mean of the layer's own time a query."),
        whole("gpu_queries", "Queries that its kernels' time is over; 0 is no kernel."),
        real("kernels", "Its kernels a query.", "1"),
        *estimate("gpu", "Trimmed mean of its kernels' summed time a query."),
        *estimate("non_gpu", "Latency less GPU; may be negative."),
        real("gpu_share", "GPU over latency; above 1 where non-GPU is negative.", "1"),
        truth("is_negative", "Whether non-GPU is below 0."),
    ),
    compute=gpu_and_rest,
    chart=stacked(
        ("index", "Layer"), {"gpu": "GPU", "non_gpu": "non-GPU"}, "Share of latency", "name", "type"
    ),
)
