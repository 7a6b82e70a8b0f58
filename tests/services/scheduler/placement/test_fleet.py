"""The world around an evaluation: who is gone, whose turn it is, and what settings bound."""

import pytest

from services.scheduler.placement.fleet import Fleet
from tests.services.scheduler.samples import a_catalog, an_agent


@pytest.mark.parametrize(
    ("state", "incarnation", "why"),
    [
        ("live", "i1", ""),
        ("live", "", ""),
        ("live", "i0", "agent a1 was restarted"),
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
    assert fleet.why_gone("a9", "") == "agent a9 is no longer in the catalog"


def test_a_turn_is_everyones_where_nobody_waits() -> None:
    fleet = Fleet(a_catalog(), turns={"a1": "e1"})
    assert fleet.has_turn("e1", "a1")
    assert not fleet.has_turn("e2", "a1")
    assert fleet.has_turn("e2", "a2")
