"""XLA's profile of a block to layers: one row an instruction that ran. Pure.

Begins and durations come from XLA's executor; an instruction that only runs others (a loop) is left
out for those in it.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from services.agent.predictors import Layer
from services.agent.predictors.xla_graphs import COMMAND_BUFFER
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


def with_graphed(ran: Sequence[Ran], program: Program) -> list[Ran]:
    """Return what ran, and behind each command buffer the instructions that no event shows.

    They take no time: it is their buffer's. Those between what ran before the buffer and what ran
    after it are in it, in the order of the schedule.
    """
    if not any(each.instruction.startswith(COMMAND_BUFFER) for each in ran):
        return list(ran)
    shown = {each.instruction for each in ran}
    schedule = [each.instruction for each in program.graphable()]
    places = {name: number for number, name in enumerate(schedule)}
    found, place = list[Ran](), 0
    for each in sorted(ran, key=lambda one: one.start_ns):
        found.append(each)
        if each.instruction in places:
            place = places[each.instruction] + 1
        elif each.instruction.startswith(COMMAND_BUFFER):
            place = place if place < len(schedule) else 0
            inside = list(takewhile(lambda name: name not in shown, schedule[place:]))
            end_ns = each.start_ns + each.duration_ns
            found += [Ran(name, end_ns, 0, each.line) for name in inside]
            place += len(inside)
    return found


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
