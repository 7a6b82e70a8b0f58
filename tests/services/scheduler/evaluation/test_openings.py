"""Cold starts go on, by one opening after the other, until the time to open is known."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlscope.load.stop_rule import RESULT_RULE
from schemas.evaluation import EvaluationPlanned, EvaluationRequested
from schemas.message import Fact
from schemas.run import BlockStatistics, RunCompleted
from services.scheduler.evaluation.attempts import S_NS
from services.scheduler.evaluation.digests import digest_of_state
from services.scheduler.evaluation.state import Run, fold
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.stories import E, Story, completed_fact, stored_fact
from tests.thoroughness import examples

MS = 1_000_000


def measured(times_ms: list[int], run_s: int = 0, **request: Any) -> Story:
    """Return the story of cold starts whose openings take these times in turn, the last for ever.

    Each run ends `run_s` after the one before it, and is stored before the next one is done.
    """
    story, openings = Story(random.Random(0)), iter(times_ms)
    story.agents["a1"] = an_agent("a1")
    wanted = {"scenarios": ["cold"], "blocks": RESULT_RULE, **request}
    story.say(EvaluationRequested(evaluation=E, request=a_request(**wanted), requested_ns=0))
    story.settle()
    while runs := [run for run in story.state.runs.values() if run.is_under_way]:
        for run in runs:
            taken_ms = next(openings, times_ms[-1])
            story.now_ns += run_s * S_NS
            story.say(_ended(run, story, taken_ms * MS))
            story.settle()
            story.say(stored_fact(run, run.attempt, story.dice))
        story.settle()
    assert story.state.state == "measured"
    return story


def _ended(run: Run, story: Story, taken_ns: int) -> Fact:
    fact = completed_fact(run, run.attempt, story.dice)
    assert isinstance(fact, RunCompleted)
    blocks = (BlockStatistics(block=0, queries=1, median_ns=taken_ns),)
    return fact.model_copy(update={"blocks": blocks})


def sessions_of(story: Story) -> list[str]:
    """Return the sessions of the plan, which are all over."""
    assert story.state.plan is not None
    return [session.session for session in story.state.plan.sessions]


def test_steady_openings_are_as_many_as_planned() -> None:
    assert sessions_of(measured([50])) == ["b1-cold0-model", "b1-cold1-model", "b1-cold2-model"]


def test_noisy_openings_go_on_one_by_one_until_their_time_is_known() -> None:
    # Of first and warm runs in turn, the first ones' times count.
    story = measured([90, 1, 110, 1, 100, 1, 100])
    more = sessions_of(story)[3:]
    assert more == [f"b1-cold0-model-{number}" for number in range(3, 3 + len(more))]
    assert 1 <= len(more) < 17
    assert {run.attempt for run in story.state.runs.values()} == {1}
    plans = [r for r in story.log if isinstance(r.fact, EvaluationPlanned)]
    assert len({r.envelope.id for r in plans}) == len(plans) == 1 + len(more)
    assert digest_of_state(fold(story.log)) == digest_of_state(story.state)


def test_openings_end_with_the_budget_and_at_the_most() -> None:
    noisy = [1, 1, 300, 1] * 20
    assert len(sessions_of(measured(noisy))) == 20
    short = RESULT_RULE.model_copy(update={"budget_s": 1.0})
    assert 3 < len(sessions_of(measured(noisy, blocks=short))) < 12


def test_the_budget_counts_the_time_that_processes_take() -> None:
    # An opening and its warm queries take 2 s, so the sixth opening ends 10 s after the first.
    # An opening with its warm queries takes 2 s, so the sixth one ends 10 s after the first.
    assert len(sessions_of(measured([1, 1, 300, 1] * 20, run_s=1))) == 6
    assert len(sessions_of(measured([1, 1, 300, 1] * 20, run_s=20))) == 3


def test_levels_go_on_together() -> None:
    rule = RESULT_RULE.model_copy(update={"most": 5})
    names = sessions_of(measured([1, 1, 300, 1] * 20, blocks=rule, trace_level="framework"))
    assert names[6:8] == ["b1-cold0-model-3", "b1-cold0-framework-3"]
    assert len(names) == 10


@pytest.mark.parametrize(
    "request_changes",
    [
        {"scenarios": [{"name": "cold", "parameters": {"queries": 3}}]},
        {"blocks": None},
        {"blocks": {"least": 1, "most": 20, "interval": 0.1}},
        {"pacing": "local"},
    ],
)
def test_openings_that_are_counted_or_have_no_rule_of_the_result_are_exactly_as_many(
    request_changes: dict[str, Any],
) -> None:
    assert len(sessions_of(measured([1, 1, 300, 1] * 20, **request_changes))) == 3


@given(st.lists(st.integers(1, 3000), min_size=6, max_size=60))
@settings(deadline=None, max_examples=examples(30))
def test_openings_are_never_fewer_than_planned_nor_more_than_the_most(times_ms: list[int]) -> None:
    assert 3 <= len(sessions_of(measured(times_ms))) <= RESULT_RULE.most
