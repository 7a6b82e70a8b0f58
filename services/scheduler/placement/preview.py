"""What would happen to a request now: who would run it, who cannot, how many runs. Pure."""

from collections import Counter
from collections.abc import Callable

from pydantic import TypeAdapter

from schemas.plan import Plan
from schemas.request import Evaluate
from schemas.status import FittingAgent, Matched
from services.scheduler.placement.fleet import Fleet
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import check_plan, plan
from services.scheduler.placement.resolving import check_collectors

_FITTING = TypeAdapter(tuple[FittingAgent, ...])


def preview(
    request: Evaluate,
    fleet: Fleet,
    now_ns: int,
    expected: Callable[[Plan], tuple[float, int] | None] = lambda _: None,
) -> Matched:
    """Return who of the `fleet` would run a `request` at `now_ns` (epoch), and the work planned.

    `expected` says how many seconds a plan's runs will take, and how many earlier runs say so.
    A request that no agent fits has an answer too: its `reasons`. Raises RequestRefused where the
    request itself is at fault: an unknown model, a bad parameter.
    """
    matched = match(request, fleet.catalog, fleet.loads, now_ns)
    check_collectors(request, fleet.catalog)
    chosen_agents = {candidate.agent for candidate in matched.agents}
    # A thousand agents are checked at once, which takes half as long as one after the other.
    agents = _FITTING.validate_python(
        [
            {
                "agent": own.agent,
                "framework": own.offer.framework,
                "version": own.offer.version,
                "device": own.offer.device,
                "deepest_level": own.offer.deepest_level,
                "waiting_runs": fleet.loads.get(own.agent, 0),
                "chosen": own.agent in chosen_agents,
            }
            for own in matched.fitting
        ]
    )
    answer = Matched(
        model=f"{matched.model.name}:{matched.model.version}",
        dataset=f"{matched.dataset.name}:{matched.dataset.version}",
        agents=agents,
        reasons=matched.reasons,
    )
    if not matched.agents:
        check_plan(request, matched, fleet.catalog, fleet.shapes)
        return answer
    planned = plan(request, matched, fleet.catalog, fleet.shapes)
    expected_s, expected_from = expected(planned) or (None, 0)
    return answer.model_copy(
        update={
            "sessions": len(planned.sessions),
            "runs": sum(len(session.runs) for session in planned.sessions),
            "budget_s": _budget_s(planned),
            "expected_s": expected_s,
            "expected_from": expected_from,
            "notes": planned.notes,
        }
    )


def _budget_s(planned: Plan) -> float | None:
    """Return the seconds that the loads of the busiest agent may take; None without a budget.

    The runs of a group share one budget, as their blocks take turns. Agents work side by side.
    """
    budget_s = planned.subject.blocks.budget_s
    if not budget_s:
        return None
    loads = {
        (session.agent, session.batch_size, session.variant, run.group // (1 + is_cold))
        for session in planned.sessions
        for run in session.runs
        # The openings of a model share a budget; each has two groups.
        for is_cold in [session.variant == "cold"]
    }
    return budget_s * max(Counter(agent for agent, *_ in loads).values())
