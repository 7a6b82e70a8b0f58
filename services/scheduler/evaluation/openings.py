"""Whether a model is opened once more, so that the time this takes is known. Pure."""

from collections.abc import Iterator, Sequence

import numpy as np

from mlscope.load.precision import opening_shortfall
from mlscope.load.scenarios import COLD
from mlscope.load.stopping import stop_reason
from schemas.evaluation import EvaluationPlanned
from schemas.plan import SessionPlan
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.placement.planning import MAX_RUNS
from services.scheduler.placement.sessions import further_opening


def openings_due(state: EvaluationState) -> Iterator[EvaluationPlanned]:
    """Yield the plan of a `state` with one more opening of each cold start that is to go on.

    It follows while the last opening's warm queries are under way, so that the agent has no pause
    in which another evaluation's turn comes.
    """
    assert state.plan is not None
    loads: dict[tuple[str, int, int], list[SessionPlan]] = {}
    for session in state.plan.sessions:
        first = session.runs[0]
        if first.scenario == COLD and first.blocks is not None:
            loads.setdefault((session.agent, session.batch_size, first.group), []).append(session)
    added = [session for load in loads.values() for session in _further_openings(state, load)]
    if not added or len(state.runs) + 2 * len(added) > MAX_RUNS:
        return
    sessions = (*state.plan.sessions, *added)
    yield EvaluationPlanned(
        evaluation=state.evaluation,
        plan=state.plan.model_copy(update={"sessions": sessions}),
        revision=len(sessions),
    )


def _further_openings(state: EvaluationState, load: Sequence[SessionPlan]) -> Iterator[SessionPlan]:
    """Yield a further session for each level of a `load` whose result is not known yet."""
    runs = [state.runs[session.runs[0].run] for session in load]
    rule = load[0].runs[0].blocks
    is_measured = all(run.outcome == "completed" and run.first_block_ns for run in runs)
    if rule is None or not is_measured:
        return
    by_level: dict[int, list[SessionPlan]] = {}
    for session in load:
        by_level.setdefault(session.runs[0].level, []).append(session)
    headlined = {session.runs[0].run for session in by_level[min(by_level)]}
    opening_ns = [run.first_block_ns for run in runs if run.run in headlined]
    missing = opening_shortfall(np.array(opening_ns, np.int64), rule.interval)
    # Processes and warm queries take time, too. Files are fetched for the first opening only, and
    # to a scheduler that takes over, all of them have just ended.
    since_first_ns = max(run.since_ns for run in runs) - min(run.since_ns for run in runs)
    elapsed_ns = max(since_first_ns, sum(run.first_block_ns for run in runs))
    if not stop_reason(rule, opening_ns, elapsed_ns * 1e-9, missing):
        for sessions in by_level.values():
            yield further_opening(sessions[0], len(sessions))
