"""What a request would do, before it is sent."""

from typing import Any

import pytest

from schemas.status import Matched
from services.scheduler.errors import RequestRefused
from services.scheduler.placement.fleet import Fleet
from services.scheduler.placement.preview import preview
from tests.services.scheduler.samples import a_catalog, a_machine, a_request, an_agent

SMALL = an_agent("small")
LARGE = an_agent("large", hardware=a_machine(memory_bytes=64 << 30))


def previewed(fleet: Fleet, **fields: Any) -> Matched:
    return preview(a_request(**fields), fleet, 0)


def test_all_fitting_agents_are_listed_and_the_least_loaded_is_chosen() -> None:
    fleet = Fleet(a_catalog(SMALL, LARGE), loads={"large": 3})
    matched = previewed(fleet)
    chosen = {agent.agent: (agent.chosen, agent.waiting_runs) for agent in matched.agents}
    assert chosen == {"small": (True, 0), "large": (False, 3)}
    assert (matched.model, matched.dataset) == ("tiny:1.0.0", "vectors:1.0.0")
    assert all(agent.chosen for agent in previewed(fleet, spread="all").agents)


def test_an_agent_that_does_not_fit_has_its_reason() -> None:
    matched = previewed(Fleet(a_catalog(SMALL, LARGE)), system={"memory_bytes": 32 << 30})
    assert [agent.agent for agent in matched.agents] == ["large"]
    assert [(reason.agent, reason.reason) for reason in matched.reasons] == [
        ("small", "memory 8.0 GiB, wanted 32.0 GiB")
    ]


def test_a_request_that_no_agent_fits_is_answered_with_the_reasons() -> None:
    matched = previewed(Fleet(a_catalog(SMALL)), system={"memory_bytes": 32 << 30})
    assert (matched.agents, matched.runs, matched.budget_s) == ((), 0, None)
    assert matched.reasons


def test_runs_and_the_budget_are_those_of_the_plan() -> None:
    fields = {
        "scenarios": ["online", "batched"],
        "batch_sizes": [1, 2, 4],
        "trace_level": "framework",
        "blocks": {"most": 9, "budget_s": 10, "interval": 0.1},
        "spread": "all",
    }
    matched = previewed(Fleet(a_catalog(SMALL, LARGE)), **fields)
    # On each agent: batched at three sizes and online at the smallest, at two levels each.
    assert matched.runs == 2 * 4 * 2
    # The two levels of a load share its budget; the two agents work side by side.
    assert matched.budget_s == 4 * 10


def test_openings_of_a_model_share_a_budget() -> None:
    fields = {"scenarios": ["cold", "online"], "blocks": {"most": 9, "budget_s": 10}}
    matched = previewed(Fleet(a_catalog(SMALL)), **fields)
    assert (matched.sessions, matched.budget_s) == (1 + 3, 2 * 10)


def test_a_fault_of_the_request_itself_is_refused() -> None:
    with pytest.raises(RequestRefused) as raised:
        previewed(Fleet(a_catalog(SMALL)), model="tony")
    assert raised.value.refused.field == "model"


def test_what_is_expected_is_expected_of_the_plan() -> None:
    fleet, request = Fleet(a_catalog(SMALL)), a_request(scenarios=["online"])
    matched = preview(request, fleet, 0, lambda plan: (12.5 * len(plan.sessions), 6))
    assert (matched.expected_s, matched.expected_from) == (12.5, 6)
    assert previewed(fleet, scenarios=["online"]).expected_s is None


def test_a_plan_without_a_budget_has_none() -> None:
    assert previewed(Fleet(a_catalog(SMALL)), scenarios=["online"], blocks=None).budget_s is None


def test_a_load_that_cannot_be_is_refused_though_no_agent_fits() -> None:
    fault = {"name": "online", "parameters": {"queries": 0}}
    too_much = {"memory_bytes": 32 << 30}
    with pytest.raises(RequestRefused) as raised:
        previewed(Fleet(a_catalog(SMALL)), scenarios=[fault], system=too_much)
    assert raised.value.refused.field == "scenarios.0.parameters.queries"
