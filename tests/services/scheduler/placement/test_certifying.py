"""Which loads can't certify their percentile, said before they start."""

from typing import Any

import pytest

from mlscope.load.stop_rule import RESULT_RULE
from schemas.level import Level
from schemas.plan import RunPlan, SessionPlan
from schemas.request import Blocks
from services.scheduler.placement.certifying import certification_notes

NEEDS = "poisson, batch 4: its 99th percentile needs 662 answered queries"


def notes(
    scenario: str, rule: Blocks = RESULT_RULE, *, queries: int = 100, levels: int = 1, **more: Any
) -> tuple[str, ...]:
    """Return the notes of one load at a number of levels."""
    variant = more.pop("variant", "")
    own = more.pop("blocks", None)
    offered_hz = more.pop("offered_hz", more.get("rate_hz", 0.0))
    runs = tuple(
        RunPlan(
            run=f"r{level}",
            group=0,
            scenario=scenario,
            parameters=more,
            level=Level(int(Level.MODEL) + level),
            queries=queries,
            blocks=own,
        )
        for level in range(levels)
    )
    session = SessionPlan(session="s", agent="a", batch_size=4, runs=runs, variant=variant)
    return certification_notes([session, session], rule, {(0, 4): offered_hz})


def test_a_rate_that_is_too_low_for_the_budget_is_named_once() -> None:
    said = f"{NEEDS}, which take 33.1 s at 20/s; its budget is 10 s: raise rate_hz or budget_s"
    assert notes("poisson", rate_hz=20) == (said,)
    assert notes("poisson", rate_hz=80.0) == ()


def test_an_open_loop_of_a_package_needs_no_parameter_of_a_certain_name() -> None:
    (said,) = notes("bursts", offered_hz=20.0, period_s=0.5)
    assert said.endswith("take 33.1 s at 20/s; its budget is 10 s: raise its rate or budget_s")
    assert notes("bursts", offered_hz=80.0, period_s=0.125) == ()
    assert notes("closed", offered_hz=0.0, rate_hz=20) == ()


def test_the_levels_of_a_load_share_its_budget() -> None:
    (said,) = notes("poisson", rate_hz=80, levels=2)
    assert said.startswith(f"{NEEDS}, which take 8.28 s at 80/s; its budget is 5 s, its share of")
    assert notes("poisson", rate_hz=140, levels=2) == ()


@pytest.mark.parametrize(
    ("rule", "own"),
    [(Blocks(least=2, most=2), None), (RESULT_RULE, Blocks(least=2, most=2))],
)
def test_a_fixed_number_of_queries_is_named(rule: Blocks, own: Blocks | None) -> None:
    (said,) = notes("poisson", rule, rate_hz=1000, blocks=own)
    assert said == f"{NEEDS}, and it issues 200 at most"
    assert notes("poisson", rule, queries=331, rate_hz=1000, blocks=own) == ()


def test_a_closed_loop_needs_enough_queries_alone() -> None:
    (said,) = notes("online", Blocks(), queries=50)
    assert said.endswith("its 90th percentile needs 64 answered queries, and it issues 50 at most")
    assert notes("online", RESULT_RULE, queries=50) == ()


def test_what_reports_no_percentile_has_no_note() -> None:
    assert notes("batched", Blocks(), queries=4) == ()
    assert notes("poisson", Blocks(), rate_hz=20, variant="counters") == ()
