"""What others see of an evaluation's state: its status, and its digest. Pure."""

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType

from schemas.manifest import DatasetManifest, ModelManifest
from schemas.plan import Subject
from schemas.request import Evaluate
from schemas.status import EvaluationStatus, RunState, RunStatus, framework_name
from services.scheduler.digests import digest_of
from services.scheduler.state import EvaluationState, Run

_NO_SIZES: Mapping[str, int] = MappingProxyType({})


def model_name(request: Evaluate | None) -> str:
    """Return the model a request names, as it names it."""
    if request is None:
        return ""
    if isinstance(request.model, ModelManifest):
        return f"{request.model.name}:{request.model.version}"
    return request.model


def status_of(state: EvaluationState, address: str, *, runs: bool = True) -> EvaluationStatus:
    """Return an evaluation's status; without `runs` as lists show it."""
    sessions = state.plan.sessions if state.plan else ()
    sizes = {session.session: session.batch_size for session in sessions}
    told = [_run_status(run, state, sizes) for run in state.runs.values()] if runs else []
    return EvaluationStatus(
        evaluation=state.evaluation,
        state=state.state,
        model=_planned_model(state) or model_name(state.request),
        requested_ns=state.requested_ns,
        request=state.request if runs else None,
        subject=_subject(state) if runs else None,
        framework=framework_name(state.plan.subject) if state.plan else "",
        device=state.plan.subject.device if state.plan else "",
        labels=state.request.labels if state.request else {},
        agents=tuple(dict.fromkeys(run.agent for run in state.runs.values())),
        runs=tuple(told),
        refusals=state.refusals if runs else (),
        tables=state.tables,
        cause=state.cause,
        address=address,
    )


def _subject(state: EvaluationState) -> Subject | None:
    """Return what was planned; a dataset that came with the request is there, not here again.

    Uploads are as large as a message may be.
    """
    if state.plan is None or state.request is None:
        return None
    subject, sent = state.plan.subject, state.request.dataset
    if not isinstance(sent, DatasetManifest):
        return subject
    named = DatasetManifest(name=sent.name, version=sent.version, modality=sent.modality)
    return subject.model_copy(update={"dataset": named})


def _planned_model(state: EvaluationState) -> str:
    if state.plan is None:
        return ""
    model = state.plan.subject.model
    return f"{model.name}:{model.version}"


def _run_status(run: Run, state: EvaluationState, sizes: Mapping[str, int]) -> RunStatus:
    return RunStatus(
        run=run.plan.run,
        session=run.session,
        agent=run.agent,
        scenario=run.plan.scenario,
        level=run.plan.level,
        batch_size=sizes[run.session],
        queries=run.plan.queries,
        attempt=run.attempt,
        state=_shown(run, state),
        cause=run.cause,
        level_note=run.level_note,
        caveats=run.caveats,
        spans=run.spans or run.tally.spans,
        answered=max((run.queries or run.tally.queries) - run.tally.failed_queries, 0),
        failed_queries=run.tally.failed_queries,
    )


def _shown(run: Run, state: EvaluationState) -> RunState:
    is_open = run.state in ("planned", "started", "interrupted")
    return "cancelled" if state.state == "cancelled" and is_open else run.state


def digest_of_state(state: EvaluationState) -> str:
    """Return the sha256 of what the facts say, in hex; where in the log they lie is left out."""
    told = [
        digest_of(status_of(state, "")),
        [state.until_ns, state.planned_ns, state.analyzed, state.analysis_failed],
        [_of_run(run) for run in state.runs.values()],
        "" if state.plan is None else digest_of(state.plan),
    ]
    return hashlib.sha256(json.dumps(told, separators=(",", ":")).encode()).hexdigest()


def _of_run(run: Run) -> list[object]:
    return [
        run.plan.run,
        run.incarnation,
        run.started_ns,
        run.is_ready,
        run.issuer,
        run.word,
        run.is_final,
        run.is_stored,
        run.lost,
        run.died,
    ]
