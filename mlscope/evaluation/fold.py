"""One evaluation as a fold of its facts, in the order of the log. Pure.

A fact that is folded a second time changes nothing, so a watcher may fold facts that the status it
began with contains already. An evaluation that has ended changes only in its runs' row counts:
rows may still be on their way when it is cancelled. A cancelled one may get tables as well.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from mlscope.evaluation.run import (
    MOST_CHARACTERS,
    RunRecord,
    cancel_run,
    complete_run,
    count_rows,
    fail_run,
    interrupt_run,
    start_run,
    store_run,
)
from mlscope.texts.shortening import at_most
from schemas.analysis import Headline
from schemas.evaluation import (
    EvaluationAnalyzed,
    EvaluationCancelled,
    EvaluationFailed,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationPostponed,
    EvaluationRequested,
    RunInterrupted,
    RunStarted,
)
from schemas.manifest import DatasetManifest
from schemas.message import Fact
from schemas.plan import Plan, Subject
from schemas.request import AgentReason, Evaluate
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunRecorded
from schemas.status import State, framework_name

ENDED: frozenset[State] = frozenset({"analyzed", "failed", "cancelled"})
"""States that an evaluation never leaves."""

_NOT_PLANNED: frozenset[State] = frozenset({"requested", "postponed"})


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """The state of one evaluation. `evaluation` is '' before it was requested."""

    evaluation: str = ""
    state: State = "requested"
    request: Evaluate | None = None
    requested_ns: int = 0
    #: the person who asked for it; '' is the cluster's user
    requested_by: str = ""
    #: what was planned; a dataset that was sent with the request is only named
    subject: Subject | None = None
    runs: Mapping[str, RunRecord] = field(default_factory=lambda: MappingProxyType({}))
    refusals: tuple[AgentReason, ...] = ()
    #: of its plan
    notes: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    headlines: tuple[Headline, ...] = ()
    cause: str = ""

    @property
    def framework(self) -> str:
        """The planned framework, or each one with a comma between; '' before planning."""
        names = [run.framework for run in self.runs.values() if run.framework]
        if len({name.partition(" ")[0] for name in names}) > 1:
            return ", ".join(dict.fromkeys(names))
        return framework_name(self.subject) if self.subject else ""

    @property
    def is_private(self) -> bool:
        """Whether only who asked for it and owners see it."""
        return self.request is not None and self.request.visibility == "private"

    @property
    def is_known(self) -> bool:
        """Whether it was ever requested."""
        return bool(self.evaluation)

    @property
    def is_ended(self) -> bool:
        """Whether its state is final."""
        return self.state in ENDED


E = TypeVar("E", bound=EvaluationRecord)


def evolve(record: E, fact: Fact) -> E:
    """Return the record after a fact of this evaluation; the same object if nothing changed.

    Facts of kinds that no record depends on change nothing.
    """
    steps = _STEPS_AFTER_END if record.is_ended else _STEPS
    step = steps.get(type(fact))
    if step is None or not (record.is_known or isinstance(fact, EvaluationRequested)):
        return record
    return step(record, fact)  # type: ignore[no-any-return]


def fold(facts: Iterable[Fact], record: EvaluationRecord | None = None) -> EvaluationRecord:
    """Return the record that facts lead to, from nothing or from `record`."""
    record = EvaluationRecord() if record is None else record
    for fact in facts:
        record = evolve(record, fact)
    return record


def request_evaluation(record: E, fact: EvaluationRequested) -> E:
    """Return the record after the request that begins it; a second one changes nothing."""
    if record.is_known:
        return record
    return replace(
        record,
        evaluation=fact.evaluation,
        request=fact.request,
        requested_ns=fact.requested_ns,
        requested_by=fact.requested_by,
    )


def postpone_evaluation(record: E, fact: EvaluationPostponed) -> E:
    """Return the record that waits for an agent, with each agent's refusal."""
    if record.state != "requested":
        return record
    return replace(record, state="postponed", refusals=fact.agents)


def plan_evaluation(record: E, fact: EvaluationPlanned) -> E:
    """Return the record with the runs and the subject of its plan; a later one adds its runs."""
    runs = _planned_runs(fact.plan)
    if record.state not in _NOT_PLANNED:
        if not fact.revision or record.state not in ("planned", "running"):
            return record
        added = {name: run for name, run in runs.items() if name not in record.runs}
        return replace(record, runs={**record.runs, **added}) if added else record
    subject = fact.plan.subject
    sent = record.request.dataset if record.request else None
    if isinstance(sent, DatasetManifest):
        # Uploads are as large as a message may be, and the request holds them already.
        own = subject.dataset
        named = DatasetManifest(name=own.name, version=own.version, modality=own.modality)
        subject = subject.model_copy(update={"dataset": named})
    planned = replace(record, state="planned", subject=subject, notes=fact.plan.notes)
    return replace(planned, runs=runs, refusals=fact.plan.refusals)


def _planned_runs(plan: Plan) -> dict[str, RunRecord]:
    return {
        run.run: RunRecord(
            run=run.run,
            session=session.session,
            agent=session.agent,
            scenario=run.scenario,
            level=run.level,
            batch_size=session.batch_size,
            planned_queries=run.queries,
            framework=framework_name(plan.subject, session.build),
        )
        for session in plan.sessions
        for run in session.runs
    }


def begin_run(record: E, fact: RunStarted) -> E:
    """Return the record after an attempt at one of its runs was given to an agent."""
    run = record.runs.get(fact.run)
    if run is None or record.state == "measured":
        return record
    started = start_run(run, fact)
    if started is run:
        return record
    return replace(record, state="running", runs={**record.runs, run.run: started})


def _of_run(change: Callable[[RunRecord, Any], RunRecord]) -> Callable[[Any, Any], Any]:
    """Return the step of a fact about a run's newest attempt; older attempts are over."""

    def step(record: E, fact: Any) -> E:
        run = record.runs.get(fact.run)
        if run is None or run.attempt != fact.attempt:
            return record
        changed = change(run, fact)
        return (
            record if changed is run else replace(record, runs={**record.runs, fact.run: changed})
        )

    return step


def measure_evaluation(record: E, fact: EvaluationMeasured) -> E:
    """Return the record once all of its runs are over.

    Those of which the collector was silent for too long have ended as incomplete.
    """
    if record.state == "measured":
        return record
    silent = {
        run.run: replace(run, state="incomplete", cause=measured.cause)
        for measured in fact.runs
        if measured.end == "incomplete"
        and (run := record.runs.get(measured.run)) is not None
        and (run.attempt, run.state) == (measured.attempt, "ended")
    }
    return replace(record, state="measured", runs={**record.runs, **silent})


def analyze_evaluation(record: E, fact: EvaluationAnalyzed) -> E:
    """Return the record that has tables; a cancelled one stays cancelled."""
    if record.is_ended:
        is_new = record.state == "cancelled" and record.tables != fact.tables
        return replace(record, tables=fact.tables, headlines=fact.headlines) if is_new else record
    return replace(record, state="analyzed", tables=fact.tables, headlines=fact.headlines)


def fail_evaluation(record: E, fact: EvaluationFailed) -> E:
    """Return the record that ended for a cause; the agents' refusals stay if there are no newer."""
    refusals = fact.agents or record.refusals
    cause = at_most(fact.cause, MOST_CHARACTERS)
    return replace(record, state="failed", cause=cause, refusals=refusals)


def cancel_evaluation(record: E, fact: EvaluationCancelled) -> E:
    """Return the record that was cancelled, with the runs that were under way."""
    runs = {name: cancel_run(run, fact.reason) for name, run in record.runs.items()}
    cause = at_most(fact.reason, MOST_CHARACTERS)
    return replace(record, state="cancelled", cause=cause, runs=runs)


_STEPS: Mapping[type[Fact], Callable[[Any, Any], Any]] = MappingProxyType(
    {
        EvaluationRequested: request_evaluation,
        EvaluationPostponed: postpone_evaluation,
        EvaluationPlanned: plan_evaluation,
        RunStarted: begin_run,
        RunInterrupted: _of_run(interrupt_run),
        RunCompleted: _of_run(complete_run),
        RunFailed: _of_run(fail_run),
        RunRecorded: _of_run(store_run),
        RunIncomplete: _of_run(store_run),
        EvaluationMeasured: measure_evaluation,
        EvaluationAnalyzed: analyze_evaluation,
        EvaluationFailed: fail_evaluation,
        EvaluationCancelled: cancel_evaluation,
    }
)

REPORTS: tuple[type[Fact], ...] = (RunCompleted, RunFailed, RunRecorded, RunIncomplete)
"""Facts that count a run's rows, also after its evaluation has ended."""

_STEPS_AFTER_END: Mapping[type[Fact], Callable[[Any, Any], Any]] = MappingProxyType(
    {**dict.fromkeys(REPORTS, _of_run(count_rows)), EvaluationAnalyzed: analyze_evaluation}
)

FOLDED: frozenset[type[Fact]] = frozenset(_STEPS)
"""The kinds of facts that a record depends on."""
