"""Points of the roofline without counters: work from the layers' shapes over kernel time.

Every input and output counts as moved once: this is a bound, not a measurement.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from mlscope.counts import many, verb
from services.analyzer.building.kernel_sums import TracedStack
from services.analyzer.frames.evaluation import Run
from services.analyzer.frames.kernels import point_of
from services.analyzer.frames.layers import layers_of

WORK = ("flops", "bytes_read", "bytes_written")
MOST_UNKNOWN_WORK = 0.05
"""The share of layer time with unknown work above which the model's bound stays open."""


def kernel_points(traced: TracedStack, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of kernels that are alone in their layer, with the layer's roofline point.

    `rows` are sums of the stack's kernels. A kernel that shares its layer has no point: the
    layer's work can't be divided among its kernels.
    """
    work = {layer["node"]: layer for layer in layer_work(traced)}
    kernels_in_layer = Counter(row["layer"] for row in rows)
    points = []
    for row in rows:
        layer = work.get(row["layer"])
        if layer is None or kernels_in_layer[row["layer"]] > 1 or not _has_work(layer):
            continue
        moved = layer["bytes_read"], layer["bytes_written"]
        point = point_of(layer["flops"], moved, row["time"], traced.ceilings)
        points.append({**row, "flops": layer["flops"], **point})
    return points


def model_point(traced: TracedStack) -> tuple[dict[str, Any], str]:
    """Return the roofline point of all layers together, and the note of `missing_work_note`.

    memory_bound is None where layers of unknown work take more than `MOST_UNKNOWN_WORK`.
    """
    work = layer_work(traced)
    with_work = [layer for layer in work if _has_work(layer)]
    flops, read, written = (
        sum(row[name] for row in with_work) if with_work else None for name in WORK
    )
    point = point_of(flops, (read, written), traced.kernels_ns, traced.ceilings)
    # Only layers with kernels count: a layer that only holds others, as a CUDA graph, has no work.
    kernel_times = {row["layer"]: row["time"] for row in traced.sums("layer")}
    with_kernels = [
        layer | {"time": kernel_times[layer["node"]]}
        for layer in work
        if layer["node"] in kernel_times
    ]
    judged = with_kernels or work
    if _unknown_share(judged) > MOST_UNKNOWN_WORK:
        point["memory_bound"] = None
    return {"flops": flops, **point}, missing_work_note(judged)


def layer_work(traced: TracedStack) -> list[dict[str, Any]]:
    """Return `work_of` the stack's run with layers; nothing without one."""
    run = traced.stack.layered
    return [] if run is None else work_of(run)


def work_of(run: Run) -> list[dict[str, Any]]:
    """Return the work per query of each layer that ran: node, name, time (ns), and `WORK`.

    `WORK` is in FLOP and bytes; None where unknown.
    """
    rows = []
    for layer in layers_of(run).to_dicts():
        if not layer["queries"]:
            continue
        calls = layer["spans"] / layer["queries"]
        amounts = {name: None if layer[name] is None else layer[name] * calls for name in WORK}
        rows.append({name: layer[name] for name in ("node", "name", "time")} | amounts)
    return rows


def missing_work_note(work: list[dict[str, Any]]) -> str:
    """Return which layers have no FLOP or bytes, with their share of layer time; '' for none."""
    unknown, part = _without_work(work), _unknown_share(work)
    if not unknown:
        return ""
    names = [layer["name"] for layer in unknown]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    of_layers = f"{len(unknown)} of {many(len(work), 'layer')}, {part:.1%} of their time"
    return f"{of_layers}, {verb(len(unknown), 'has', 'have')} unknown work ({shown})"


def _without_work(work: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [layer for layer in work if not _has_work(layer)]


def _has_work(layer: Mapping[str, Any]) -> bool:
    return all(layer[name] is not None for name in WORK)


def _unknown_share(work: list[dict[str, Any]]) -> float:
    """Return the share of the layer time in layers of unknown work."""
    all_ns = sum(layer["time"] or 0.0 for layer in work)
    unknown_ns = sum(layer["time"] or 0.0 for layer in _without_work(work))
    return unknown_ns / all_ns if all_ns else 0.0
