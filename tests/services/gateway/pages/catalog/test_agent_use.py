"""How much an agent was used, day by day."""

from datetime import UTC, datetime

from schemas.status import EvaluationStatus
from services.gateway.pages.catalog import agent_use
from services.gateway.pages.catalog.agent_use import AgentUse, use_of

NOW = datetime(2026, 3, 28, 12, tzinfo=UTC)
DAY_NS = 86_400 * 10**9


def used(*days_ago: float) -> AgentUse | None:
    """Return the use by evaluations that were requested so many days ago."""
    now_ns = int(NOW.timestamp() * 1e9)
    evaluations = [
        EvaluationStatus(
            evaluation=f"e{n}",
            state="analyzed",
            model="m",
            requested_ns=now_ns - int(days * DAY_NS),
        )
        for n, days in enumerate(days_ago)
    ]
    return use_of(evaluations, now_ns)


def test_each_day_with_evaluations_has_a_bar_as_high_as_its_share_of_the_busiest() -> None:
    use = used(0.1, 0.6, 0.7, 27.0, 28.0, 40.0)
    assert use is not None
    assert [(bar.text, bar.height) for bar in use.bars] == [
        ("2026-03-01: 1 evaluation", 50.0),
        ("2026-03-27: 2 evaluations", 100.0),
        ("2026-03-28: 1 evaluation", 50.0),
    ]
    assert (use.bars[0].x, use.bars[-1].x + use.bars[-1].width < 100.0) == (0.0, True)
    assert use.text == "4 evaluations from 2026-03-01 to 2026-03-28, 2 on the busiest day"


def test_an_agent_without_recent_evaluations_has_no_picture() -> None:
    assert (used(), used(28.0)) == (None, None)


def test_more_evaluations_than_are_counted_are_at_least_so_many() -> None:
    days = [0.1] * agent_use.COUNTED
    use, with_older = used(*days), used(*days[1:], 30.0)
    assert use is not None
    assert with_older is not None
    assert use.text.startswith("at least 200 evaluations from")
    assert with_older.text.startswith("199 evaluations from")
