"""Leveled runs of one load together: which run tells of which level.

XSP III-C: a level is read from the run where it is the deepest one on. Where that run is not
there, as in an imported trace, the shallowest deeper one stands for it, and its caveat says so.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from schemas.level import Level
from services.analyzer.frames import LAYER_LEVEL, OPERATOR_LEVEL, PREDICT, Frames, Run
from services.analyzer.own_devices import HOST
from services.analyzer.tables.kernel_frames import kernels_of
from services.analyzer.tables.table import text, whole

SYSTEM_LEVEL, HARDWARE_LEVEL = int(Level.SYSTEM), int(Level.HARDWARE)

STACK_COLUMNS = (
    text("agent", "Where it ran."),
    text("session", "The session: one opened predictor."),
    text("scenario", "How its queries arrived."),
    whole("batch_size", "Samples in a query."),
    text("run", "The run that its times are from."),
)
"""What rows made of several levels' runs begin with."""

SERIALISED = "serialised"
"""The variant whose layers and launches wait for each other: it tells what lies in which."""

VARIANT_COLUMN = text(
    "variant", "Empty, or serialised: one thread, each launch waited for; never mixed in a row."
)
"""What tables that have rows of serialised runs beside plain ones say of each row."""


@dataclass(frozen=True)
class Stack:
    """Runs of one agent, session, scenario, parameters and batch size, by their deepest level.

    All of one variant: whose times are serialised, cold or of a replay are no others' times.
    """

    agent: str
    session: str
    scenario: str
    batch_size: int
    parameters: str
    variant: str
    by_level: Mapping[int, Run]
    #: runs of the same agent and batch size that may hold hardware counters
    counted: tuple[Run, ...] = field(default=())

    @property
    def timed(self) -> Run:
        """The run traced least: whole queries are read from it."""
        return self.by_level[min(self.by_level)]

    @cached_property
    def model(self) -> Run | None:
        """The run that tells of predict: the shallowest that has it."""
        return self._shallowest(OPERATOR_LEVEL, lambda run: len(run.operator_ns(PREDICT)) > 0)

    @cached_property
    def layered(self) -> Run | None:
        """The run that tells of layers."""
        return self._shallowest(LAYER_LEVEL, lambda run: run.spans_at(LAYER_LEVEL).height > 0)

    @cached_property
    def traced(self) -> Run | None:
        """The run that tells of kernels: no replay for counters, unless there is nothing else.

        A replay's times are no latencies; where a report of it was imported alone, it tells all.
        """
        runs = [run for level, run in sorted(self.by_level.items()) if level >= SYSTEM_LEVEL]
        with_work = [
            run
            for run in runs
            if (run.row.level != HARDWARE_LEVEL or self.is_replay) and kernels_of(run).height
        ]
        return with_work[0] if with_work else None

    @property
    def is_replay(self) -> bool:
        """Whether a replay for counters is all there is."""
        return set(self.by_level) == {HARDWARE_LEVEL}

    @property
    def is_launched(self) -> bool:
        """Whether its layers' own times are those of launches: a device works, nobody waits.

        Layers of a replay, as an imported ncu report has them, are made of kernels' times.
        """
        if self.layered is None or self.is_replay or self.variant == SERIALISED:
            return False
        name = self.layered.row.device.partition(":")[0]
        return name not in ("", HOST) or self.traced is not None

    def cells(self, run: Run) -> dict[str, Any]:
        """Return the cells of `STACK_COLUMNS`."""
        return {
            "agent": self.agent,
            "session": self.session,
            "scenario": self.scenario,
            "batch_size": self.batch_size,
            "run": run.row.run,
        }

    def cells_beside(self, run: Run) -> dict[str, Any]:
        """Return the cells of `STACK_COLUMNS` and `VARIANT_COLUMN`."""
        return {**self.cells(run), "variant": self.variant}

    def _shallowest(self, level: int, tells: Any) -> Run | None:
        return next(
            (r for at, r in sorted(self.by_level.items()) if at >= level and tells(r)), None
        )


def stacks_of(frames: Frames, variants: Collection[str] = ("",)) -> Iterator[Stack]:
    """Yield the runs with answered queries, those of one load together, in the plan's order.

    Only those of `variants`: plain ones, unless told; counters are read of replays all the same.
    """
    groups: dict[tuple[str, str, str, int, str, str], dict[int, Run]] = defaultdict(dict)
    counted: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in frames.measured:
        row = run.row
        # A replay for counters may be of kernels alone, without a query.
        if not run.answered.height and row.level != HARDWARE_LEVEL:
            continue
        if row.level >= HARDWARE_LEVEL:
            counted[row.agent, row.batch_size].append(run)
        if row.variant not in variants:
            continue
        parameters = json.dumps(dict(row.parameters), sort_keys=True, default=str)
        key = (row.agent, row.session, row.scenario, row.batch_size, parameters, row.variant)
        groups[key].setdefault(row.level, run)
    found = [
        Stack(*key, by_level=runs, counted=tuple(counted[key[0], key[3]]))
        for key, runs in groups.items()
    ]
    has_times = any(not stack.is_replay for stack in found)
    yield from (stack for stack in found if not (stack.is_replay and has_times))


def stacks_beside(frames: Frames) -> list[Stack]:
    """Return the plain stacks, and behind them those of serialised runs."""
    return [*stacks_of(frames), *stacks_of(frames, (SERIALISED,))]


def layered_runs(frames: Frames) -> Iterator[Run]:
    """Yield the plain runs that tell of layers, one a load."""
    return layered_in(stacks_of(frames))


def layered_in(stacks: Iterable[Stack]) -> Iterator[Run]:
    """Yield the runs of these stacks that tell of layers."""
    return (stack.layered for stack in stacks if stack.layered is not None)


def depth_doubts(frames: Frames) -> Iterator[str]:
    """Yield which plain layers' times hold the cost of tracing deeper than layers."""
    return deeper_than_layers(layered_runs(frames))


def deeper_than_layers(runs: Iterable[Run]) -> Iterator[str]:
    """Yield which of these runs' layers' times hold the cost of tracing deeper."""
    for run in runs:
        if run.row.level > LAYER_LEVEL:
            yield (
                f"{run.row.run}: no run stops at level framework; its layers' times hold the cost "
                f"of tracing level {run.row.level_name}"
            )


def launched_runs(frames: Frames) -> set[str]:
    """Return the plain runs whose layers' own times are those of launches."""
    stacks = (stack for stack in stacks_of(frames) if stack.is_launched)
    return {run.row.run for run in layered_in(stacks)}


def launch_doubts(stacks: Sequence[Stack], runs: Collection[str] | None = None) -> Iterator[str]:
    """Yield of which layers the own times are those of launches, and what tells more.

    Of `runs` alone where they are given; `stacks` with the serialised ones.
    """
    waited = {
        (stack.agent, stack.batch_size): run.row.run
        for stack in stacks
        if stack.variant == SERIALISED and (run := stack.layered) is not None
    }
    for stack in stacks:
        run = stack.layered
        if run is None or not stack.is_launched or (runs is not None and run.row.run not in runs):
            continue
        told = ["their kernels' is in A11 and A13"] if stack.traced is not None else []
        if serialised := waited.get((stack.agent, stack.batch_size)):
            told.append(f"{serialised}, serialised, waited for each (A2, A13)")
        remedy = "; ".join(told) or "request level system, or it serialised, which tell"
        yield (
            f"{run.row.run}: launches return at once on a device: layers' time is that of "
            f"launching, and of what they wait for, not of their work: {remedy}"
        )
