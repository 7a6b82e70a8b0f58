"""What must happen beside the log, by the state an evaluation is in."""

import random

import pytest

from schemas.evaluation import EvaluationRequested, RunInterrupted, RunIssued
from schemas.message import Fact
from schemas.run import RunFailed, RunReady, Tally
from services.scheduler.evaluation.effects import (
    Close,
    Effect,
    Issue,
    Start,
    Stop,
    effects,
    order_of,
)
from services.scheduler.evaluation.state import EvaluationState
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.stories import E, Story, completed_fact

RUN = "b1-poisson-model"
ISSUE = Issue("a1", E, RUN, 1)
START = Start("a1", E, "b1", 1, (RUN,))
STOP = Stop("a1", E, RUN, 1)
CLOSE = Close("a1", E, "b1")

READY = RunReady(evaluation=E, run=RUN, attempt=1, agent="a1")
ISSUED = RunIssued(evaluation=E, run=RUN, attempt=1, issuer="s1")
LOST = RunInterrupted(evaluation=E, run=RUN, attempt=1, agent="a1", cause="lost")
GIVEN_UP = RunInterrupted(evaluation=E, run=RUN, attempt=1, agent="a1", cause="lost", final=True)


def failed_fact(error: str) -> RunFailed:
    told = {"evaluation": E, "run": RUN, "attempt": 1, "agent": "a1", "message": ""}
    return RunFailed.model_validate(told | {"error": error, "tally": Tally()})


def started(*scenarios: str) -> Story:
    """Return an evaluation whose first group was just started on a1."""
    story = Story(random.Random(1))
    story.agents["a1"] = an_agent("a1")
    request = a_request(scenarios=list(scenarios))
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    story.settle()
    return story


def wanted(story: Story) -> list[Effect]:
    """Return the effects of a story as it stands."""
    return list(effects(story.state, story.fleet()))


def test_nothing_must_be_before_there_is_a_plan() -> None:
    assert list(effects(EvaluationState(), started("online").fleet())) == []


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([], [START]),
        ([READY], [ISSUE, START]),
        ([READY, ISSUED], [START]),
        ([LOST], [STOP]),
        ([GIVEN_UP], [STOP, CLOSE]),
        ([failed_fact("worker_died")], []),
        ([failed_fact("predict")], [CLOSE]),
    ],
)
def test_effects_follow_from_what_was_said_last(facts: list[Fact], expected: list[Effect]) -> None:
    story = started("poisson")
    for fact in facts:
        story.say(fact)
    assert wanted(story) == expected


def test_an_agent_that_is_gone_is_not_told_to_stop() -> None:
    story = started("poisson")
    story.agents["a1"] = an_agent("a1", state="lost")
    story.say(LOST)
    assert wanted(story) == []


def test_an_ended_evaluation_has_its_runs_stopped_and_its_sessions_closed() -> None:
    story = started("poisson")
    story.cancel()
    assert wanted(story) == [STOP, CLOSE]


def test_a_session_stays_open_between_its_groups_and_is_closed_after_them() -> None:
    story = started("poisson", "online")
    for number, run in enumerate((RUN, "b1-online-model")):
        assert wanted(story) == [Start("a1", E, "b1", 1, (run,))], number
        story.say(completed_fact(story.state.runs[run], 1, story.dice))
        story.settle()
    assert wanted(story) == [CLOSE]


def test_every_agent_that_held_a_session_is_told_to_close_it() -> None:
    story = started("poisson", "online")
    story.say(completed_fact(story.state.runs[RUN], 1, story.dice))
    story.settle()
    story.agents = {"a1": an_agent("a1", state="lost"), "a2": an_agent("a2")}
    story.settle()
    story.settle()
    story.say(completed_fact(story.state.runs["b1-online-model"], 2, story.dice))
    closes = [each for each in wanted(story) if isinstance(each, Close)]
    assert closes == [CLOSE, Close("a2", E, "b1")]


def test_an_order_is_the_plans_session_for_the_agent_that_does_it() -> None:
    story = started("poisson", "online")
    story.agents = {"a1": an_agent("a1", state="lost"), "a2": an_agent("a2", incarnation="i7")}
    story.settle()
    [start] = [each for each in wanted(story) if isinstance(each, Start)]
    order = order_of(story.state, start)
    assert (order.agent, order.session.agent, order.incarnation) == ("a2", "a2", "i7")
    assert (order.attempt, order.runs) == (2, (RUN,))
    assert [run.run for run in order.session.runs] == [RUN, "b1-online-model"]
