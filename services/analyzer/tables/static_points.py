"""Points of the roofline without counters: the work that layers' shapes tell, over kernels' time.

Every input and output moved once: a bound, and no measurement.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mlscope.client.quantities import number
from mlscope.counts import be, many, verb
from services.analyzer.frames import Run
from services.analyzer.tables.kernel_frames import point_of
from services.analyzer.tables.kernel_sums import Traced
from services.analyzer.tables.layer_frames import layers_of

WORK = ("flops", "bytes_read", "bytes_written")
MOST_UNTOLD = 0.05
"""The part of the layers' time beyond which what the others tell does not judge the model."""


def kernel_points(traced: Traced, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those of a stack's kernels that are alone in a layer, with that layer's point.

    Whose layer has several kernels gets none: nothing tells which did how much of it.
    """
    work = {each["node"]: each for each in layer_work(traced)}
    alone = Counter(row["layer"] for row in rows)
    found = []
    for row in rows:
        told = work.get(row["layer"])
        if told is None or alone[row["layer"]] > 1 or any(told[name] is None for name in WORK):
            continue
        moved = told["bytes_read"], told["bytes_written"]
        point = point_of(told["flops"], moved, row["time"], traced.ceilings)
        found.append({**row, "flops": told["flops"], **point})
    return found


def model_point(traced: Traced) -> tuple[dict[str, Any], str]:
    """Return the point of all layers together, and which of them tell no work ('' for none).

    What bounds the model stays open where too much of it tells nothing.
    """
    work = layer_work(traced)
    told = [each for each in work if all(each[name] is not None for name in WORK)]
    flops, read, written = (sum(each[name] for each in told) if told else None for name in WORK)
    time = sum(row["time"] for row in traced.sums())
    point = point_of(flops, (read, written), time, traced.ceilings)
    ran = _by_kernels(traced, work)
    if _untold_part(ran) > MOST_UNTOLD:
        point["memory_bound"] = None
    return {"flops": flops, **point}, lacking_of(ran)


def _by_kernels(traced: Traced, work: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the layers that have kernels, with the time of these; all where none is known.

    What only holds others, as a CUDA graph does, has no work to tell.
    """
    known = {row["layer"]: row["time"] for row in traced.sums("layer")}
    ran = [each | {"time": known[each["node"]]} for each in work if each["node"] in known]
    return ran or work


def layer_work(traced: Traced) -> list[dict[str, Any]]:
    """Return node, name, time, FLOP and bytes a query of each layer that ran; null where untold."""
    run = traced.stack.layered
    return [] if run is None else work_of(run)


def work_of(run: Run) -> list[dict[str, Any]]:
    """Return the same of the layers of a run."""
    found = []
    for layer in layers_of(run).to_dicts():
        if not layer["queries"]:
            continue
        calls = layer["spans"] / layer["queries"]
        amounts = {name: _times(layer[name], calls) for name in WORK}
        found.append({name: layer[name] for name in ("node", "name", "time")} | amounts)
    return found


def lacking_of(work: list[dict[str, Any]]) -> str:
    """Return which layers tell no FLOP or bytes, with their part of the layers' time; '' if all."""
    untold, part = _untold(work), _untold_part(work)
    if not untold:
        return ""
    names = [each["name"] for each in untold]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    of, tell = many(len(work), "layer"), verb(len(untold), "tells", "tell")
    return f"{len(untold)} of {of}, {part:.1%} of their time, {tell} no work ({shown})"


def _untold(work: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in work if any(each[name] is None for name in WORK)]


def _untold_part(work: list[dict[str, Any]]) -> float:
    """Return which part of the layers' time is of those that tell no work."""
    all_ns = sum(each["time"] or 0.0 for each in work)
    return sum(each["time"] or 0.0 for each in _untold(work)) / all_ns if all_ns else 0.0


def above_roof(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield of each run how many of its rows, by `of_roof`, do more than its roof allows."""
    parts: dict[str, list[float]] = {}
    for row in rows:
        if row["of_roof"] is not None:
            parts.setdefault(row["run"], []).append(row["of_roof"])
    for run, shares in parts.items():
        if above := [each for each in shares if each > 1.0]:
            yield (
                f"{run}: {len(above)} of {many(len(shares), 'row')} {be(len(above))} above the "
                f"roof, by up to {number(max(above), 3)} times: caches served bytes that count "
                "as moved, or a faster algorithm or arithmetic did the work"
            )


def _times(amount: float | None, calls: float) -> float | None:
    return None if amount is None else amount * calls
