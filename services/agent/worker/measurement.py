"""One run in the worker: what it measures with, what it has collected, and how it ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any, Self

from mlscope.load.load import AHEAD, STREAMED, Load
from mlscope.load.precision import Answers, shortfall
from mlscope.load.scenarios import COLD, scenario_named
from mlscope.load.stopping import block_statistics
from mlscope.tracing.batches import Attempt
from mlscope.tracing.clock import ended_origin, started_origin, wall_step_ns
from schemas.level import Level
from schemas.plan import RunPlan, WorkOrder
from schemas.request import Blocks
from schemas.run import BlockStatistics, ClockOrigin, Conditions, RunCompleted, Tally
from services.agent.errors import AgentError, CodeFailed, CodeRaised, DeviceLost, PredictFailed
from services.agent.link.failures import run_failed
from services.agent.link.issued_load import (
    LATE_NS,
    LATENESS,
    failed_queries_caveat,
    failed_samples_caveat,
    late_issue_caveat,
    shortened,
)
from services.agent.link.messages import AttemptKey, Outcome
from services.agent.machine.cores import ANYWHERE
from services.agent.machine.noise import MachineReading, noise_between, read_machine
from services.agent.machine.roofline.ceilings import NO_ROOF, Roof, RunCeilings
from services.agent.predictors import Layer, LayerSource, PartsSource
from services.agent.worker.control import Control, Deadline
from services.agent.worker.device_copies import copy_caveats
from services.agent.worker.device_loss import is_device_loss
from services.agent.worker.open_collectors import (
    CollectorContext,
    OpenCollectors,
    missing_levels,
    open_collectors,
)
from services.agent.worker.queries.ahead import BatchOf
from services.agent.worker.queries.overload import ServiceBacklog
from services.agent.worker.queries.query import Query, Slot, bytes_of
from services.agent.worker.queries.stages import Stages
from services.agent.worker.recorder import HandOver, RunRecorder
from services.agent.worker.session import Session
from services.agent.worker.session_opener import SessionOpener

STEP_NS = 10_000_000
"""A wall clock that moved by more than this during a run is a caveat."""


@dataclass(slots=True)
class Measurement:
    """A run on its way through its blocks."""

    session: Session
    plan: RunPlan
    key: AttemptKey
    load: Load
    level: Level
    level_note: str
    origin: ClockOrigin
    recorder: RunRecorder
    stages: Stages
    deadline: Deadline
    began: MachineReading
    error: AgentError | None = None
    collectors: OpenCollectors = field(default_factory=OpenCollectors)
    #: its device's, of a run with layers
    roof: Roof = NO_ROOF
    medians: list[float] = field(default_factory=list)
    #: see `Conditions.blocks_ended`
    blocks_ended: str = ""
    caveats: list[str] = field(default_factory=list)
    #: finds the batch that was prepared ahead for a query; None: samples are streamed
    batch_of: BatchOf | None = None
    #: the slots of its batches that were prepared ahead
    prepared_slots: Sequence[Slot] = ()
    #: predict calls under way at a time, of which the copies of one overlap another's computing
    calls_in_flight: int = 1
    #: where a call finds its inputs; '' on a CPU
    inputs: str = ""
    _blocks: list[BlockStatistics] = field(default_factory=list)
    _service_ns: list[int] = field(default_factory=list)
    _late_ns: list[int] = field(default_factory=list)
    _answers: Answers = field(default_factory=Answers)
    _backlog: ServiceBacklog = field(default_factory=ServiceBacklog)
    _answered: int = 0
    _last_error: str = ""
    _first_error: str = ""
    _has_last_failed: bool = False
    #: the last error of inline code
    _code_error: CodeRaised | None = None

    @classmethod
    def of(
        cls,
        session: Session,
        order: WorkOrder,
        plan: RunPlan,
        control: Control,
        hand_over: HandOver,
        opener: SessionOpener | None = None,
    ) -> Self:
        """Return a run of an `order` in a `session`, ready for its first block. Raises LoadError.

        `plan` is the run's, `control` has its stops, `hand_over` takes its batches, and `opener`
        opens the session again for collectors that replay it.
        """
        scenario = scenario_named(plan.scenario)
        load = scenario(plan.parameters, order.session.batch_size, len(session.supply.samples))
        context = CollectorContext(
            session.predictor.opened,
            plan.level,
            order.session.variant,
            order.subject.collectors,
            opener,
        )
        # The run of a cold start has the collectors that observed the session's opening.
        collectors = session.opening_collectors if plan.scenario == COLD else None
        if collectors is None:
            collectors = open_collectors(context)
        level, level_note = traceable_level(plan.level, session, collectors)
        origin = started_origin()
        if plan.scenario == COLD and context.opened.first is not None:
            # Its time begins when the session began to open.
            began_ns = context.opened.first.began_ns
            epoch_ns = origin.epoch_start_ns - (origin.monotonic_ns - began_ns)
            changes = {"monotonic_ns": began_ns, "epoch_start_ns": epoch_ns}
            origin = origin.model_copy(update=changes)
        attempt = Attempt(
            order.evaluation, plan.run, order.attempt, order.agent, origin.monotonic_ns
        )
        recorder = RunRecorder(attempt, hand_over, waits_for_flush=level >= Level.FRAMEWORK)
        stages = Stages(
            session.supply,
            session.predictor.predict,
            recorder,
            level,
            outputs=order.subject.outputs,
            records_queries=plan.pacing == "local",
        )
        if isinstance(session.predictor, PartsSource):
            stages.divide_calls_by(session.predictor.predict_parts)
        key = AttemptKey(order.evaluation, plan.run, order.attempt)
        roof = NO_ROOF
        if opener is not None and level >= Level.FRAMEWORK:
            # The device opened may be another than the one requested.
            is_cpu = context.opened.device == "cpu"
            roof = opener.roof if (opener.roof.kind == "cpu") == is_cpu else NO_ROOF
        return cls(
            session=session,
            plan=plan,
            key=key,
            load=load,
            level=level,
            level_note=level_note,
            origin=origin,
            recorder=recorder,
            stages=stages,
            deadline=Deadline(control, key, plan.timeout_s),
            began=read_machine(),
            collectors=collectors,
            roof=roof,
        )

    @property
    def captures_layers(self) -> bool:
        """Whether its predict calls go through a capture of layers."""
        return self.level >= Level.FRAMEWORK and Level.FRAMEWORK in predicted_levels(self.session)

    def new_block(self) -> Callable[[Query], None]:
        """Begin a block; the function returned is called with each finished query."""
        self._service_ns, self._backlog = [], ServiceBacklog()
        self._answers.begin_block()
        return self._count_query

    def end_block(self, block: int) -> None:
        """Compute a block's statistics."""
        statistics = block_statistics(block, self._service_ns)
        self._blocks.append(statistics)
        self.medians.append(statistics.median_ns)
        if self.load.due_ns is not None and self._backlog.is_overload(statistics.median_ns):
            self.caveats.append(f"block {block}: {self._backlog.note()}")

    def missing_in_result(self, rule: Blocks) -> str:
        """Return what its result still lacks under a stop `rule` of the result, '' for nothing."""
        return shortfall(self.load, self._answers, rule.interval) if rule.of == "result" else ""

    def attach_layers(self, calls: Sequence[Sequence[Layer]]) -> None:
        """Record the layers of a block's predict calls."""
        if not self.stages.attach_layers(calls):
            self.caveats.append(
                "the profile does not match the predict calls: the layers were left out"
            )

    def outcome(self) -> Outcome:
        """Return how it ended, once its collectors are closed."""
        self.collectors.close()
        tally = self.recorder.tally().model_copy(
            update={"dropped_records": self.collectors.dropped}
        )
        conditions = self._conditions()
        self.error = self.error or self._error_of_queries()
        attempt = self.recorder.attempt
        if self.error is not None:
            return run_failed(attempt, self.error, tally, self.origin, conditions, self.level)
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
            caveats=(
                *self.caveats,
                *copy_caveats(conditions, self.session.predictor.opened.memory_reason),
                *self._final_caveats(tally, origin),
            ),
        )

    def _error_of_queries(self) -> AgentError | None:
        """Return the error of a run that lost its device, or had no query answered."""
        reason = self._last_error.removeprefix("predict:").strip()
        if self._has_last_failed and is_device_loss(self._last_error):
            return DeviceLost(reason)
        if self._answered:
            return None
        if self._last_error.startswith("predict:"):
            return PredictFailed(reason)
        if self._code_error is not None:
            return CodeFailed(self._code_error.name, self._code_error.reason)
        return None

    def _count_query(self, query: Query) -> None:
        self._backlog.add(query.issued_ns, query.ended_ns)
        if query.due_ns >= 0:
            self._late_ns.append(query.issued_ns - query.due_ns)
        self._has_last_failed = not query.is_answered
        if query.errors:
            self._last_error = query.errors[-1]
            self._code_error = query.code_error or self._code_error
            self._first_error = self._first_error or query.errors[0]
        if query.is_answered:
            self._answered += 1
            self._service_ns.append(query.service_ns)
            self._answers.add(query.due_ns, query.issued_ns, query.ended_ns)

    def _conditions(self) -> Conditions:
        seed = self.plan.parameters.get("seed")
        noise = noise_between(self.began, read_machine())
        if self._late_ns:
            noise[LATENESS] = _p99(self._late_ns)
        conditions = self.session.conditions(seed if isinstance(seed, int) else None, noise)
        samples: str = STREAMED if self.batch_of is None else AHEAD
        cores = self.stages.predicting_cores
        if self.plan.scenario == COLD:  # an opening, which predicts zeros, wherever it runs
            samples, cores = "", ANYWHERE
        changes: dict[str, Any] = {
            "blocks_ended": self.blocks_ended,
            "repeats_compared": self.stages.kept_outputs.compared,
            **self.stages.prepared_by.conditions,
            "samples": samples,
            "calls_in_flight": self.calls_in_flight,
            "predict_cores": ",".join(map(str, sorted(cores))),
            "inputs": self.inputs or ("host" if conditions.host_memory else ""),
            "prepared_batches": len(self.prepared_slots),
            "prepared_bytes": sum(bytes_of(slot.inputs) for slot in self.prepared_slots),
        }
        return conditions.model_copy(update={**changes, **self._ceilings().ceilings})

    def _ceilings(self) -> RunCeilings:
        opened = self.session.predictor.opened
        return self.roof.for_run(opened.precision, opened.threads)

    def _final_caveats(self, tally: Tally, origin: ClockOrigin) -> list[str]:
        roof_notes = filter(None, [self._ceilings().note])
        caveats = [*self.stages.notes, *self.collectors.notes, *roof_notes]
        if tally.failed_queries:
            caveats.append(failed_queries_caveat(tally, self._first_error))
        if tally.failed_samples:
            caveats.append(failed_samples_caveat(tally, self._first_error))
        if self._first_error and not tally.failed_queries and not tally.failed_samples:
            # The issuer counts the queries of a remote load.
            caveats.append(f"the first query that failed: {shortened(self._first_error)}")
        if tally.dropped_batches:
            caveats.append(
                f"{tally.dropped_batches} batches were dropped: ring and spool were full"
            )
        if _p99(self._late_ns) > LATE_NS:
            caveats.append(late_issue_caveat(_p99(self._late_ns)))
        if abs(wall_step_ns(origin)) > STEP_NS:
            caveats.append(f"the wall clock moved by {wall_step_ns(origin) / 1e6:.1f} ms")
        return caveats


def predicted_levels(session: Session) -> frozenset[Level]:
    """Return the levels that pipeline and predictor trace without any collector."""
    deepest = session.deepest_level
    if not isinstance(session.predictor, LayerSource):
        deepest = min(deepest, Level.MODEL)
    return frozenset(level for level in Level if level <= deepest)


def traceable_level(
    requested: Level, session: Session, collectors: OpenCollectors | None = None
) -> tuple[Level, str]:
    """Return the deepest level up to `requested` that can be traced, and a note on missing levels.

    Levels come from the predictor of the `session` and from the run's open `collectors`.
    """
    collectors = collectors or OpenCollectors()
    traced = predicted_levels(session) | collectors.levels
    deepest = max(level for level in traced if level <= requested)
    opened = session.predictor.opened
    framework_reason = _in_brackets(opened.level_reason)
    if deepest < requested:
        reasons = missing_levels(requested, traced, collectors).values()
        text = "; ".join(filter(None, reasons)) if collectors.missing else ""
        return deepest, (
            f"level {requested.name.lower()} was requested, but {opened.framework} on this agent "
            f"can only be traced down to level {deepest.name.lower()}"
            f"{framework_reason}{_in_brackets(text)}"
        )
    notes = []
    for level, reason in missing_levels(deepest, traced, collectors).items():
        suffix = framework_reason if level == Level.FRAMEWORK else _in_brackets(reason)
        notes.append(f"{opened.framework} on this agent has no level {level.name.lower()}{suffix}")
    return deepest, "; ".join(notes)


def _in_brackets(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _p99(values: Sequence[int]) -> float:
    """Return the 99th percentile; 0 without values."""
    if len(values) < 2:
        return sum(values)
    return quantiles(values, n=100, method="inclusive")[98]
