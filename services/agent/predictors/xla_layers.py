"""XLA's profile of a block to layers: one row an instruction that ran. Pure.

Begins and durations come from XLA's executor; an instruction that only runs others (a loop) is left
out for those in it.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.agent.predictors import Layer
from services.agent.predictors.xla_program import Program


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of an instruction: monotonic nanoseconds, and the profile's line it was on."""

    instruction: str
    start_ns: int
    duration_ns: int
    line: int


def layers_by_call(
    ran: Iterable[Ran], calls: Sequence[tuple[int, int]], program: Program
) -> list[list[Layer]]:
    """Return the layers of each call (begin and end, monotonic ns); what is outside is left out."""
    begins = [begin for begin, _ in calls]
    found: list[list[Ran]] = [[] for _ in calls]
    for each in sorted(ran, key=lambda one: (one.start_ns, -one.duration_ns)):
        place = bisect_right(begins, each.start_ns) - 1
        if place < 0 or each.start_ns >= calls[place][1] or program.holds_others(each.instruction):
            continue
        found[place].append(each)
    return [_layers(each, end, program) for each, (_, end) in zip(found, calls, strict=True)]


def _layers(ran: Sequence[Ran], end_ns: int, program: Program) -> list[Layer]:
    counts, ends, layers = Counter[str](), dict[int, int](), []
    for each in ran:
        if each.start_ns < ends.get(each.line, 0):
            continue
        duration_ns = min(each.duration_ns, end_ns - each.start_ns)
        ends[each.line] = each.start_ns + duration_ns
        name, attributes = program.row(each.instruction, counts[each.instruction])
        counts[each.instruction] += 1
        layers.append(Layer(name, each.start_ns, duration_ns, each.line, attributes))
    return layers
