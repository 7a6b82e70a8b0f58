"""The status message of an evaluation's record, and the record of such a message. Pure."""

from dataclasses import replace

from mlscope.evaluation.fold import EvaluationRecord
from mlscope.evaluation.run import RunRecord, awaits_count, is_cut_off
from schemas.evaluation import NO_AGENT_FITS, NO_AGENT_KNOWN
from schemas.manifest import ModelManifest
from schemas.request import Evaluate
from schemas.status import EvaluationStatus, Extent, RowCounts, RunStatus

_NO_ROWS = RowCounts()


def unrequested_status(evaluation: str) -> EvaluationStatus:
    """Return the status of an evaluation before any of its facts."""
    return EvaluationStatus(evaluation=evaluation, state="requested", model="", requested_ns=0)


def is_unmatched(status: EvaluationStatus) -> bool:
    """Tell whether an evaluation failed because no agent could run it."""
    return status.state == "failed" and status.cause in (NO_AGENT_FITS, NO_AGENT_KNOWN)


def awaits_tables(status: EvaluationStatus) -> bool:
    """Tell whether tables of a cancelled evaluation may follow: none is there yet, but rows are.

    `status` has its runs. Rows are those of complete runs and of what the cancellation cut off.
    """
    return (
        status.state == "cancelled"
        and not status.tables
        and any(
            run.outcome == "completed" or is_cut_off(run) or awaits_count(run)
            for run in status.runs
        )
    )


def status_of(
    record: EvaluationRecord, address: str = "", *, runs: bool = True
) -> EvaluationStatus:
    """Return an evaluation's status.

    `record` is what is known of it, `address` the URL of its page. Without `runs` it is as lists
    show it: no run, request, subject or refusal.
    """
    request, subject = record.request, record.subject
    visibility, labels, extent = "cluster", {}, None
    if request is not None:
        visibility, labels, extent = request.visibility, request.labels, _extent_of(request)
    visible = (
        record
        if runs
        else replace(record, request=None, subject=None, runs={}, refusals=(), notes=())
    )
    return EvaluationStatus(
        evaluation=record.evaluation,
        state=record.state,
        model=_name_of(subject.model) if subject else model_name(request),
        requested_ns=record.requested_ns,
        requested_by=record.requested_by,
        visibility=visibility,
        request=visible.request,
        subject=visible.subject,
        framework=record.framework,
        device=subject.device if subject else "",
        labels=labels,
        agents=tuple(dict.fromkeys(run.agent for run in record.runs.values())),
        runs=tuple(map(run_status_of, visible.runs.values())),
        refusals=visible.refusals,
        notes=visible.notes,
        tables=record.tables,
        extent=extent,
        headlines=record.headlines,
        cause=record.cause,
        address=address,
    )


def _extent_of(request: Evaluate) -> Extent:
    levels = request.levels or (request.trace_level,)
    return Extent(
        scenarios=tuple(dict.fromkeys(scenario.name for scenario in request.scenarios)),
        batch_sizes=request.batch_sizes,
        levels=tuple(level.name.lower() for level in levels),
    )


def run_status_of(run: RunRecord) -> RunStatus:
    """Return a run's status.

    Its rows are those in the database, or those that its agent announced until they are stored.
    """
    announced, stored = run.announced or _NO_ROWS, run.stored or _NO_ROWS
    failed_queries = (run.announced or stored).failed_queries
    return RunStatus(
        run=run.run,
        session=run.session,
        agent=run.agent,
        scenario=run.scenario,
        level=run.level,
        batch_size=run.batch_size,
        queries=run.planned_queries,
        attempt=run.attempt,
        state=run.state,
        cause=run.cause,
        level_note=run.level_note,
        caveats=run.caveats,
        spans=stored.spans or announced.spans,
        answered=max((stored.queries or announced.queries) - failed_queries, 0),
        failed_queries=failed_queries,
        outcome=run.outcome,
        final=run.is_final,
        announced=run.announced,
        stored=run.stored,
        framework=run.framework,
    )


def record_of(status: EvaluationStatus) -> EvaluationRecord:
    """Return the record that `status_of` made a full status of, to fold further facts into it."""
    return EvaluationRecord(
        evaluation=status.evaluation,
        state=status.state,
        request=status.request,
        requested_ns=status.requested_ns,
        requested_by=status.requested_by,
        subject=status.subject,
        runs={run.run: run_record_of(run) for run in status.runs},
        refusals=status.refusals,
        notes=status.notes,
        tables=status.tables,
        headlines=status.headlines,
        cause=status.cause,
    )


def run_record_of(status: RunStatus) -> RunRecord:
    """Return the record that `run_status_of` made a status of."""
    announced = status.announced
    if announced is None and status.stored is None and (status.spans or status.answered):
        # A scheduler of release 0.1 does not say whose count it shows.
        queries = status.answered + status.failed_queries
        announced = RowCounts(
            spans=status.spans, queries=queries, failed_queries=status.failed_queries
        )
    return RunRecord(
        run=status.run,
        session=status.session,
        agent=status.agent,
        scenario=status.scenario,
        level=status.level,
        batch_size=status.batch_size,
        planned_queries=status.queries,
        attempt=status.attempt,
        state=status.state,
        outcome=status.outcome,
        is_final=status.final,
        cause=status.cause,
        level_note=status.level_note,
        caveats=status.caveats,
        announced=announced,
        stored=status.stored,
        framework=status.framework,
    )


def model_name(request: Evaluate | None) -> str:
    """Return the model of a request as the request names it; '' without a request."""
    if request is None:
        return ""
    return _name_of(request.model) if isinstance(request.model, ModelManifest) else request.model


def _name_of(model: ModelManifest) -> str:
    return f"{model.name}:{model.version}"
