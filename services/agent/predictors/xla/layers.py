"""Turn XLA's profile of a block into layers: one row for each instruction that ran. Pure.

Start times and durations come from XLA's executor. An instruction that only runs others (a loop) is
left out; the instructions in it are listed instead.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from services.agent.predictors import Layer
from services.agent.predictors.xla.graphs import COMMAND_BUFFER
from services.agent.predictors.xla.program import Program


@dataclass(frozen=True, slots=True)
class InstructionRun:
    """One run of an instruction: CLOCK_MONOTONIC nanoseconds, and its line in the profile."""

    instruction: str
    start_ns: int
    duration_ns: int
    line: int


def layers_by_call(
    runs: Iterable[InstructionRun], calls: Sequence[tuple[int, int]], program: Program
) -> list[list[Layer]]:
    """Return the layers of each call, in order; runs outside of all calls are left out.

    `runs`: what the profile shows, in any order; `calls`: begin and end of each predict call,
    ascending, CLOCK_MONOTONIC ns; `program` names and describes the instructions.
    """
    begins = [begin for begin, _ in calls]
    runs_by_call: list[list[InstructionRun]] = [[] for _ in calls]
    for run in sorted(runs, key=lambda run: (run.start_ns, -run.duration_ns)):
        number = bisect_right(begins, run.start_ns) - 1
        is_inside = number >= 0 and run.start_ns < calls[number][1]
        if is_inside and not program.is_container(run.instruction):
            runs_by_call[number].append(run)
    layers_of_calls = []
    for call_runs, (_, call_end_ns) in zip(runs_by_call, calls, strict=True):
        counts, line_ends_ns, layers = Counter[str](), dict[int, int](), list[Layer]()
        for run in call_runs:
            if run.start_ns < line_ends_ns.get(run.line, 0):
                continue  # it ran inside another one
            duration_ns = min(run.duration_ns, call_end_ns - run.start_ns)
            line_ends_ns[run.line] = run.start_ns + duration_ns
            name, attributes = program.row(run.instruction, counts[run.instruction])
            counts[run.instruction] += 1
            layers.append(Layer(name, run.start_ns, duration_ns, run.line, attributes))
        layers_of_calls.append(layers)
    return layers_of_calls


def with_graphed(runs: Sequence[InstructionRun], program: Program) -> list[InstructionRun]:
    """Return the runs, and behind each command buffer the instructions that no event shows.

    These take no time, as it is their buffer's. A buffer holds the instructions between what ran
    before it and what ran after it, in the order of the schedule.
    """
    if not any(run.instruction.startswith(COMMAND_BUFFER) for run in runs):
        return list(runs)
    with_events = {run.instruction for run in runs}
    schedule = [graphable.instruction for graphable in program.graphable()]
    positions = {name: position for position, name in enumerate(schedule)}
    all_runs, position = list[InstructionRun](), 0
    for run in sorted(runs, key=lambda run: run.start_ns):
        all_runs.append(run)
        if run.instruction in positions:
            position = positions[run.instruction] + 1
        elif run.instruction.startswith(COMMAND_BUFFER):
            position = position if position < len(schedule) else 0
            inside = list(takewhile(lambda name: name not in with_events, schedule[position:]))
            end_ns = run.start_ns + run.duration_ns
            all_runs += [InstructionRun(name, end_ns, 0, run.line) for name in inside]
            position += len(inside)
    return all_runs
