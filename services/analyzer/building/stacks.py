"""Leveled runs of one load: which run each level is read from.

XSP III-C: a level is read from the run in which it is the deepest traced level. Without that run,
as in an imported trace, the next deeper run takes its place, and a caveat says so.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from schemas.level import Level
from services.analyzer.building.table import int_column, text_column
from services.analyzer.frames.evaluation import (
    LAYER_LEVEL,
    OPERATOR_LEVEL,
    PREDICT,
    Frames,
    Ns,
    Run,
)
from services.analyzer.frames.kernels import kernels_of
from services.analyzer.frames.own_devices import HOST

SYSTEM_LEVEL, HARDWARE_LEVEL = int(Level.SYSTEM), int(Level.HARDWARE)

STACK_COLUMNS = (
    text_column("agent", "The agent that ran it."),
    text_column("session", "The session, in which one predictor was opened."),
    text_column("scenario", "The scenario: how queries arrived."),
    int_column("batch_size", "Samples per query."),
    text_column("run", "The run that the times are from."),
)
"""The first columns of tables whose rows combine runs of several levels."""

SERIALISED = "serialised"
"""The variant whose layers and launches wait for each other: it shows which layer ran what."""

VARIANT_COLUMN = text_column(
    "variant", "Empty, or serialised: one thread, waiting for each launch. A row never mixes both."
)
"""The column of tables that have rows of plain and of serialised runs."""


@dataclass(frozen=True)
class Stack:
    """Runs of one agent, session, scenario, parameters and batch size, by their deepest level.

    All are of one variant: serialised, cold and replayed runs have times of their own.
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
        """The run with the shallowest level: times of whole queries are read from it."""
        return self.by_level[min(self.by_level)]

    @cached_property
    def model(self) -> Run | None:
        """The run that predict is read from: the shallowest that has it."""
        return self._shallowest(OPERATOR_LEVEL, lambda run: len(run.operator_ns(PREDICT)) > 0)

    @property
    def predicted(self) -> Run | None:
        """The run whose predict counts: `model`; none of a replay, whose times are no latencies."""
        return None if self.is_replay else self.model

    @property
    def predict_ns(self) -> Ns:
        """The time (ns) of predict in each query of `predicted`; empty without such a run."""
        run = self.predicted
        return run.operator_ns(PREDICT) if run else np.zeros(0, np.int64)

    @cached_property
    def layered(self) -> Run | None:
        """The run that layers are read from: the shallowest that has them."""
        return self._shallowest(LAYER_LEVEL, lambda run: run.spans_at(LAYER_LEVEL).height > 0)

    @cached_property
    def with_kernels(self) -> Run | None:
        """The run that kernels are read from; a replay for counters only if it is the only run.

        A replay's times are no latencies, but its imported report may be all that there is.
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
        """Whether its only runs are replays for counters."""
        return set(self.by_level) == {HARDWARE_LEVEL}

    @property
    def is_launched(self) -> bool:
        """Whether its layers only launch work: their own times leave out the work of a device.

        The layers of a replay, as in an imported ncu report, have the times of their kernels.
        """
        if self.layered is None or self.is_replay or self.variant == SERIALISED:
            return False
        name = self.layered.row.device.partition(":")[0]
        return name not in ("", HOST) or self.with_kernels is not None

    def cells(self, run: Run) -> dict[str, Any]:
        """Return the cells of `STACK_COLUMNS`."""
        return {
            "agent": self.agent,
            "session": self.session,
            "scenario": self.scenario,
            "batch_size": self.batch_size,
            "run": run.row.run,
        }

    def cells_with_variant(self, run: Run) -> dict[str, Any]:
        """Return the cells of `STACK_COLUMNS` and `VARIANT_COLUMN`."""
        return {**self.cells(run), "variant": self.variant}

    def _shallowest(self, level: int, has_rows: Any) -> Run | None:
        return next(
            (
                run
                for deepest, run in sorted(self.by_level.items())
                if deepest >= level and has_rows(run)
            ),
            None,
        )


def stacks_of(frames: Frames, variants: Collection[str] = ("",)) -> Iterator[Stack]:
    """Yield the runs with answered queries as stacks, one for each load, in the plan's order.

    Only runs of `variants` (by default the plain ones); counters are always read from replays.
    """
    groups: dict[tuple[str, str, str, int, str, str], dict[int, Run]] = defaultdict(dict)
    counted: dict[tuple[str, int], list[Run]] = defaultdict(list)
    for run in frames.measured:
        row = run.row
        # A replay for counters may have kernels without a query.
        if not run.answered.height and row.level != HARDWARE_LEVEL:
            continue
        if row.level >= HARDWARE_LEVEL:
            counted[row.agent, row.batch_size].append(run)
        if row.variant not in variants:
            continue
        load = row.agent, row.session, row.scenario, row.batch_size, row.parameters_text
        groups[*load, row.variant].setdefault(row.level, run)
    stacks = [
        Stack(*key, by_level=runs, counted=tuple(counted[key[0], key[3]]))
        for key, runs in groups.items()
    ]
    yield from [stack for stack in stacks if not stack.is_replay] or stacks


def stacks_with_serialised(frames: Frames) -> list[Stack]:
    """Return the plain stacks, followed by those of serialised runs."""
    return [*stacks_of(frames), *stacks_of(frames, (SERIALISED,))]


def layered_runs(frames: Frames) -> Iterator[Run]:
    """Yield the plain runs that layers are read from, one for each load."""
    return layered_in(stacks_of(frames))


def layered_in(stacks: Iterable[Stack]) -> Iterator[Run]:
    """Yield the runs of these stacks that layers are read from."""
    return (stack.layered for stack in stacks if stack.layered is not None)


def depth_warnings(frames: Frames) -> Iterator[str]:
    """Yield `deeper_trace_warnings` of the plain runs with layers."""
    return deeper_trace_warnings(layered_runs(frames))


def deeper_trace_warnings(runs: Iterable[Run]) -> Iterator[str]:
    """Yield a caveat for each run whose layer times include the cost of deeper tracing."""
    for run in runs:
        if run.row.level > LAYER_LEVEL:
            yield (
                f"{run.row.run}: no run stops at level framework; its layer times include the cost "
                f"of tracing level {run.row.level_name}"
            )


def launched_runs(frames: Frames) -> set[str]:
    """Return the names of the plain runs whose layers only launch work."""
    stacks = (stack for stack in stacks_of(frames) if stack.is_launched)
    return {run.row.run for run in layered_in(stacks)}


def launch_warnings(stacks: Sequence[Stack], runs: Collection[str] | None = None) -> Iterator[str]:
    """Yield a caveat for each run whose layers only launch work, and where their work is shown.

    `stacks` include the serialised ones; `runs` limits the caveats to runs of these names.
    """
    serialised_runs = {
        (stack.agent, stack.batch_size): run.row.run
        for stack in stacks
        if stack.variant == SERIALISED and (run := stack.layered) is not None
    }
    for stack in stacks:
        run = stack.layered
        if run is None or not stack.is_launched or (runs is not None and run.row.run not in runs):
            continue
        remedies = ["A11 and A13 show their kernel time"] if stack.with_kernels is not None else []
        if serialised := serialised_runs.get((stack.agent, stack.batch_size)):
            remedies.append(f"the serialised run {serialised} waited for each layer (A2, A13)")
        elif remedies:
            remedies.append("request serialised runs, which wait for each layer")
        remedy = "; ".join(remedies) or "request level system or serialised runs to see it"
        yield (
            f"{run.row.run}: launches return at once on a device, so layer times cover launching "
            f"and waiting, not the layers' work: {remedy}"
        )
