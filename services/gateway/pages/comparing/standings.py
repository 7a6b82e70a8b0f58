"""Whether an evaluation is faster or slower than the base, at how many loads, by how much. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlscope.counts import many, verb
from mlscope.quantities import estimated, shown
from schemas.analysis import Table
from schemas.level import Level

Cells = Mapping[str, Any]
_LOAD = ("second", "agent", "scenario", "batch_size")
_RESULTS = (
    ("faster", "better", "▲ faster than the base"),
    ("slower", "worse", "▼ slower than the base"),
    ("same", "", "≈ no clear change of 1% or more"),
    ("unknown", "", "no interval against the base"),
    ("refused", "", "refused for unlike "),
)
"""A result, its tone, and its words."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What one or several loads have in common; `tone` is better, worse or ''.

    The tone doubt is of a text on what the intervals hold of drift, and on noise.
    """

    text: str
    tone: str


def standings_of(regressions: Table | None) -> dict[str, list[Standing]]:
    """Return how each evaluation stands against the first, by the table `regressions`.

    Of a load that was measured at several levels it is the runs that were traced least: several
    if the load has variants, such as samples prepared ahead and streamed.
    """
    if regressions is None or not any(column.name == "second" for column in regressions.columns):
        return {}
    loads: dict[tuple[object, ...], list[Cells]] = defaultdict(list)
    for cells in regressions.records():
        loads[tuple(cells[name] for name in _LOAD)].append(cells)
    least_traced: dict[str, list[Cells]] = defaultdict(list)
    for (evaluation, *_), pairs in loads.items():
        least = min(map(_level_of, pairs))
        least_traced[str(evaluation)] += [cells for cells in pairs if _level_of(cells) == least]
    return {evaluation: _standings(own) for evaluation, own in least_traced.items()}


def _level_of(cells: Cells) -> Level:
    return Level[cells["level"].upper()]


def _standings(loads: Sequence[Cells]) -> list[Standing]:
    standings = []
    for result, tone, words in _RESULTS:
        own = [cells for cells in loads if cells["result"] == result]
        if own:
            place = f" at {len(own)} of {many(len(loads), 'load')}" if len(loads) > 1 else ""
            unlike = _unlike(own) if result == "refused" else ""
            size = _size(own, is_changed=bool(tone))
            standings.append(Standing(f"{words}{unlike}{place}{size}", tone))
    judged = [cells for cells in loads if cells["result"] != "refused"]
    doubts = list(dict.fromkeys(filter(None, (cells.get("drift", "") for cells in judged))))
    if noisy := sum(bool(cells.get("noisy")) for cells in judged):
        doubts.append(
            f"{noisy} of {many(len(loads), 'load')} {verb(noisy, 'has', 'have')} noisy runs"
        )
    return [*standings, *(Standing(doubt, "doubt") for doubt in doubts)]


def _unlike(loads: Sequence[Cells]) -> str:
    """Return the conditions for which any of the `loads` was refused."""
    names = [name for cells in loads for name in cells["unlike"].split(", ")]
    return ", ".join(dict.fromkeys(names))


def _size(loads: Sequence[Cells], *, is_changed: bool) -> str:
    """Return by how much latency changed."""
    changes = [cells for cells in loads if cells["change"] is not None]
    if len(loads) == 1 and changes:
        (cells,) = changes
        change = estimated(cells["change"], cells["change_low"], cells["change_high"], "share")
        return f": latency {'+' if cells['change'] > 0 else ''}{change}"
    if is_changed:
        most = max(abs(cells["change"]) for cells in changes)
        return f": latency by up to {shown(most, 'share')}"
    return ""
