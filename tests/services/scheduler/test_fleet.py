"""The world around an evaluation: who is gone, whose turn it is, and what settings bound."""

import pytest

from services.scheduler.fleet import Fleet, limits_of
from tests.services.scheduler.samples import a_catalog, an_agent
from tests.services.scheduler.worlds import quick


@pytest.mark.parametrize(
    ("state", "incarnation", "why"),
    [
        ("live", "i1", ""),
        ("live", "", ""),
        ("live", "i0", "agent a1 was started anew"),
        ("lost", "i1", "agent a1 was lost"),
        ("left", "i1", "agent a1 left"),
    ],
)
def test_an_agents_start_is_over_when_it_is_gone_or_new(
    state: str, incarnation: str, why: str
) -> None:
    fleet = Fleet(a_catalog(an_agent(state=state)))
    assert fleet.why_gone("a1", incarnation) == why


def test_an_agent_nobody_knows_is_gone() -> None:
    fleet = Fleet(a_catalog())
    assert fleet.agent("a9") is None
    assert fleet.why_gone("a9", "") == "agent a9 is not known any more"


def test_a_turn_is_everyones_where_nobody_waits() -> None:
    fleet = Fleet(a_catalog(), turns={"a1": "e1"})
    assert fleet.has_turn("e1", "a1")
    assert not fleet.has_turn("e2", "a1")
    assert fleet.has_turn("e2", "a2")


def test_limits_are_what_an_operator_sets() -> None:
    limits = limits_of(quick(run_attempts=2, agent_grace_s=7, analysis_wait_s=9, lease_ttl_s=0.3))
    assert (limits.attempts_lost, limits.agent_grace_s) == (2, 7)
    assert (limits.analysis_wait_s, limits.lease_ttl_s) == (9, 0.3)


@pytest.mark.parametrize(("deadline_s", "failed_s", "completed_s"), [(1, 3, 900), (100, 300, 1500)])
def test_waits_for_the_collector_are_longer_than_its_own_deadline(
    deadline_s: float, failed_s: float, completed_s: float
) -> None:
    limits = limits_of(quick(batch_deadline_s=deadline_s))
    assert (limits.stored_wait_s, limits.recording_wait_s) == (failed_s, completed_s)
