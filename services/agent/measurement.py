"""One run in the worker: what it measures with, what it has gathered, and how it ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any, Self

from mlscope.load.load import Load
from mlscope.load.scenarios import COLD, scenario_named
from mlscope.tracing.batches import Attempt
from mlscope.tracing.clock import ended_origin, started_origin, wall_step_ns
from schemas.level import Level
from schemas.plan import RunPlan, WorkOrder
from schemas.run import BlockStatistics, ClockOrigin, Conditions, RunCompleted, RunFailed, Tally
from services.agent.blocks import block_statistics
from services.agent.ceilings import NO_ROOF, Picked, Roof
from services.agent.collecting import Collecting, Occasion, missing_levels, open_collecting
from services.agent.control import Control, Deadline, RunName
from services.agent.errors import AgentError, CodeFailed, CodeRaised, DeviceLost, PredictFailed
from services.agent.issued import LATE_NS, LATENESS, failed_note, late_note, partial_note, short
from services.agent.lost import tells_of_lost_device
from services.agent.noise import Reading, noise_between, reading
from services.agent.overload import Served
from services.agent.predictors import Layer, LayerSource
from services.agent.query import Query
from services.agent.recorder import HandOver, Recorder
from services.agent.reopening import Reopening
from services.agent.session import Session
from services.agent.stages import Stages

STEP_NS = 10_000_000
"""A wall clock that moved more than this during a run is a caveat."""


@dataclass(slots=True)
class Measurement:
    """A run on its way through its blocks."""

    session: Session
    plan: RunPlan
    name: RunName
    load: Load
    level: Level
    level_note: str
    origin: ClockOrigin
    recorder: Recorder
    stages: Stages
    deadline: Deadline
    began: Reading
    error: AgentError | None = None
    collecting: Collecting = field(default_factory=Collecting)
    #: its device's, told where layers are
    roof: Roof = NO_ROOF
    medians: list[float] = field(default_factory=list)
    #: see `Conditions.blocks_ended`
    blocks_ended: str = ""
    caveats: list[str] = field(default_factory=list)
    _blocks: list[BlockStatistics] = field(default_factory=list)
    _service_ns: list[int] = field(default_factory=list)
    _late_ns: list[int] = field(default_factory=list)
    _served: Served = field(default_factory=Served)
    _answered: int = 0
    _last_error: str = ""
    _first_error: str = ""
    _has_last_failed: bool = False
    #: what inline code raised last
    _raised: CodeRaised | None = None

    @classmethod
    def of(
        cls,
        session: Session,
        order: WorkOrder,
        plan: RunPlan,
        control: Control,
        hand_over: HandOver,
        reopening: Reopening | None = None,
    ) -> Self:
        """Return a run ready for its first block. Raises LoadError."""
        scenario = scenario_named(plan.scenario)
        batch_size = order.session.batch_size
        load = scenario(plan.parameters, batch_size, len(session.supply.samples))
        occasion = Occasion(
            session.predictor.opened,
            plan.level,
            order.session.variant,
            order.subject.collectors,
            reopening,
        )
        collecting = _collecting_for(session, plan, occasion)
        level, note = traceable_level(plan.level, session, collecting)
        origin = started_origin()
        if plan.scenario == COLD and occasion.opened.first is not None:
            origin = _since(occasion.opened.first.began_ns, origin)
        attempt = Attempt(
            order.evaluation, plan.run, order.attempt, order.agent, origin.monotonic_ns
        )
        recorder = Recorder(attempt, hand_over, holds=level >= Level.FRAMEWORK)
        stages = Stages(
            session.supply,
            session.predictor.predict,
            recorder,
            level,
            outputs=order.subject.outputs,
            records_queries=plan.pacing == "local",
        )
        name = (order.evaluation, plan.run, order.attempt)
        deadline = Deadline(control, name, plan.timeout_s)
        run = cls(
            session, plan, name, load, level, note, origin, recorder, stages, deadline, reading()
        )
        run.collecting = collecting
        if reopening is not None and level >= Level.FRAMEWORK:
            run.roof = _roof_for(reopening.roof, occasion.opened.device)
        return run

    @property
    def captures_layers(self) -> bool:
        """Say whether its predict calls go through a capture of layers."""
        return self.level >= Level.FRAMEWORK and Level.FRAMEWORK in predicted_levels(self.session)

    def new_block(self) -> Callable[[Query], None]:
        """Begin a block; the function returned is called with each query that is done."""
        self._service_ns, self._served = [], Served()
        return self._done

    def end_block(self, block: int) -> None:
        """Take a block's statistics."""
        statistics = block_statistics(block, self._service_ns)
        self._blocks.append(statistics)
        self.medians.append(statistics.median_ns)
        if self.load.due_ns is not None and self._served.is_overload(statistics.median_ns):
            self.caveats.append(f"block {block}: {self._served.note()}")

    def attach_layers(self, calls: Sequence[Sequence[Layer]]) -> None:
        """Record the layers of a block's predict calls."""
        if not self.stages.attach_layers(calls):
            self.caveats.append("the profile does not fit the predict calls; layers were left out")

    def outcome(self) -> RunCompleted | RunFailed:
        """Return how it ended."""
        self.collecting.close()
        tally = self.recorder.tally().model_copy(
            update={"dropped_records": self.collecting.dropped}
        )
        conditions = self._conditions()
        if self.error is None and self._has_last_failed and tells_of_lost_device(self._last_error):
            self.error = DeviceLost(self._last_error.removeprefix("predict:").strip())
        if self.error is None and self._answered == 0 and self._last_error.startswith("predict:"):
            self.error = PredictFailed(self._last_error.removeprefix("predict:").strip())
        if self.error is None and self._answered == 0 and self._raised is not None:
            self.error = CodeFailed(self._raised.name, self._raised.reason)
        if self.error is not None:
            return failure(
                self.recorder.attempt, self.error, tally, self.origin, conditions, self.level
            )
        attempt = self.recorder.attempt
        origin = ended_origin(self.origin)
        return RunCompleted(
            evaluation=attempt.evaluation,
            run=attempt.run,
            attempt=attempt.attempt,
            agent=attempt.agent,
            tally=tally,
            origin=origin,
            conditions=conditions,
            level=self.level,
            level_note=self.level_note,
            blocks=tuple(self._blocks),
            caveats=(*self.caveats, *self._notes(tally, origin)),
        )

    def _done(self, query: Query) -> None:
        self._served.add(query.issued_ns, query.ended_ns)
        if query.due_ns >= 0:
            self._late_ns.append(query.issued_ns - query.due_ns)
        self._has_last_failed = not query.is_answered
        if query.errors:
            self._last_error = query.errors[-1]
            self._raised = query.raised or self._raised
            self._first_error = self._first_error or query.errors[0]
        if query.is_answered:
            self._answered += 1
            self._service_ns.append(query.service_ns)

    def _conditions(self) -> Conditions:
        seed = self.plan.parameters.get("seed")
        noise = noise_between(self.began, reading())
        if self._late_ns:
            noise[LATENESS] = _p99(self._late_ns)
        conditions = self.session.conditions(seed if isinstance(seed, int) else None, noise)
        conditions = conditions.model_copy(update={"blocks_ended": self.blocks_ended})
        told: dict[str, Any] = {"repeats_compared": self.stages.kept.compared}
        return conditions.model_copy(update={**told, **self._roofed().ceilings})

    def _roofed(self) -> Picked:
        opened = self.session.predictor.opened
        return self.roof.of_run(opened.precision, opened.threads)

    def _notes(self, tally: Tally, origin: ClockOrigin) -> list[str]:
        notes = [*self.stages.notes, *self.collecting.notes]
        if note := self._roofed().note:
            notes.append(note)
        if tally.failed_queries:
            notes.append(failed_note(tally, self._first_error))
        if tally.failed_samples:
            notes.append(partial_note(tally, self._first_error))
        if self._first_error and not tally.failed_queries and not tally.failed_samples:
            # The issuer counts a remote load's queries.
            notes.append(f"the first query that failed: {short(self._first_error)}")
        if tally.dropped_batches:
            notes.append(f"{tally.dropped_batches} batches were dropped: ring and spool were full")
        if self._late_ns and _p99(self._late_ns) > LATE_NS:
            notes.append(late_note(_p99(self._late_ns)))
        if abs(wall_step_ns(origin)) > STEP_NS:
            notes.append(f"the wall clock moved by {wall_step_ns(origin) / 1e6:.1f} ms")
        return notes


def _roof_for(roof: Roof, device: str) -> Roof:
    """Return a roof where it is of a device as was opened: one may be asked for, and not used."""
    return roof if (roof.kind == "cpu") == (device == "cpu") else NO_ROOF


def predicted_levels(session: Session) -> frozenset[Level]:
    """Return the levels that pipeline and predictor give without any collector."""
    deepest = session.deepest_level
    if not isinstance(session.predictor, LayerSource):
        deepest = min(deepest, Level.MODEL)
    return frozenset(level for level in Level if level <= deepest)


def traceable_level(
    asked: Level, session: Session, collecting: Collecting | None = None
) -> tuple[Level, str]:
    """Return the deepest level up to `asked` that can be traced, and what is missing of it.

    Levels come from the predictor and from the run's open collectors.
    """
    collecting = collecting or Collecting()
    given = predicted_levels(session) | collecting.levels
    deepest = max(level for level in given if level <= asked)
    opened = session.predictor.opened
    missing = missing_levels(min(asked, deepest), given, collecting)
    reason = f" ({opened.level_reason})" if opened.level_reason else ""
    if deepest < asked:
        reasons = missing_levels(asked, given, collecting)
        why = "; ".join(each for each in reasons.values() if each) if collecting.missing else ""
        return deepest, (
            f"{opened.framework} on this agent can be traced down to level {deepest.name.lower()};"
            f" {asked.name.lower()} was asked{reason}{f' ({why})' if why else ''}"
        )
    return deepest, "; ".join(
        f"{opened.framework} on this agent has no level {level.name.lower()}"
        + (reason if level == Level.FRAMEWORK else f" ({why})" if why else "")
        for level, why in missing.items()
    )


def _collecting_for(session: Session, plan: RunPlan, occasion: Occasion) -> Collecting:
    """Return a run's collectors; those that saw the session's opening for the run that is of it."""
    if plan.scenario == COLD and session.watched is not None:
        return session.watched
    return open_collecting(occasion)


def _since(began_ns: int, origin: ClockOrigin) -> ClockOrigin:
    """Return an origin moved back to when the session began to open."""
    passed_ns = origin.monotonic_ns - began_ns
    moved = {"monotonic_ns": began_ns, "epoch_start_ns": origin.epoch_start_ns - passed_ns}
    return origin.model_copy(update=moved)


def failure(
    attempt: Attempt,
    error: AgentError,
    tally: Tally | None = None,
    origin: ClockOrigin | None = None,
    conditions: Conditions | None = None,
    level: Level = Level.NONE,
) -> RunFailed:
    """Return a bad end; what was handed over before is announced all the same."""
    return RunFailed(
        evaluation=attempt.evaluation,
        run=attempt.run,
        attempt=attempt.attempt,
        agent=attempt.agent,
        error=error.kind,
        message=str(error),
        tally=tally or Tally(),
        origin=None if origin is None else ended_origin(origin),
        conditions=conditions or Conditions(),
        level=level,
    )


def failed(order: WorkOrder, run: str, error: AgentError) -> RunFailed:
    """Return the bad end of a run that never began."""
    return failure(Attempt(order.evaluation, run, order.attempt, order.agent), error)


def _p99(values: Sequence[int]) -> float:
    return quantiles(values, n=100, method="inclusive")[98] if len(values) > 1 else values[0]
