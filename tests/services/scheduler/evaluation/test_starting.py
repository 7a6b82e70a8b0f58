"""Which runs start next, and where: one group an agent, whose turn it is, who stands in."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from schemas.evaluation import EvaluationRequested, RunInterrupted, RunStarted
from services.scheduler.evaluation.attempts import S_NS
from services.scheduler.evaluation.decide import decide
from services.scheduler.evaluation.starting import next_group, replacement_agents, starts_due
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.stories import E, Story, completed_fact


def planned(*agents: str, **request: Any) -> Story:
    """Return an evaluation that is planned for some of these agents, before anything starts."""
    story = Story(random.Random(1), agents={name: an_agent(name) for name in agents})
    request_fact = EvaluationRequested(evaluation=E, request=a_request(**request), requested_ns=0)
    story.say(request_fact)
    for fact in decide(story.state, 0, story.fleet()):
        story.say(fact)
    return story


def starts(story: Story, **fleet: Any) -> list[tuple[str, str, int]]:
    """Return which runs start now, in a changed `fleet`: run, agent and attempt."""
    facts = starts_due(story.state, story.now_ns, replace(story.fleet(), **fleet))
    return [(fact.run, fact.agent, fact.attempt) for fact in facts if isinstance(fact, RunStarted)]


def start(story: Story) -> None:
    """Record what starts now."""
    for fact in list(starts_due(story.state, story.now_ns, story.fleet())):
        story.say(fact)


def lose(story: Story, runs: Sequence[str], at_s: float = 0.0) -> None:
    """Record that the newest attempts of these runs were broken off."""
    story.now_ns = int(at_s * S_NS)
    for name in runs:
        run = story.state.runs[name]
        about = {"evaluation": E, "run": name, "attempt": run.attempt, "agent": run.agent}
        story.say(RunInterrupted.model_validate(about | {"cause": "agent a1 was lost"}))


LEVELS = ["b1-online-model", "b1-online-framework"]


def test_the_runs_of_a_group_start_together_and_those_of_the_next_after_them() -> None:
    story = planned("a1", scenarios=["online", "batched"], trace_level="framework")
    assert starts(story) == [(run, "a1", 1) for run in LEVELS]
    start(story)
    assert starts(story) == []
    for name in LEVELS:
        story.say(completed_fact(story.state.runs[name], 1, story.dice))
    assert [run for run, *_ in starts(story)] == ["b1-batched-model", "b1-batched-framework"]


def test_an_agent_has_one_group_at_a_time_whatever_sessions_wait() -> None:
    story = planned("a1", scenarios=["batched"], batch_sizes=[1, 2])
    assert starts(story) == [("b1-batched-model", "a1", 1)]
    everywhere = planned("a1", "a2", scenarios=["batched"], batch_sizes=[1, 2], spread="all")
    assert [agent for _, agent, _ in starts(everywhere)] == ["a1", "a2"]


def test_a_group_whose_turn_it_is_not_waits() -> None:
    story = planned("a1")
    assert starts(story, turns={"a1": "another"}) == []
    assert starts(story, turns={"a1": E}) == [("b1-online-model", "a1", 1)]


def test_a_repeated_group_shares_its_attempt_number() -> None:
    story = planned("a1", trace_level="framework")
    start(story)
    story.say(completed_fact(story.state.runs[LEVELS[0]], 1, story.dice))
    lose(story, LEVELS[1:])
    assert starts(story) == [(LEVELS[1], "a1", 2)]


def test_the_agent_that_stands_in_is_the_least_loaded_whose_turn_it_is() -> None:
    story = planned("a1")
    start(story)
    lose(story, ["b1-online-model"])
    story.agents |= {name: an_agent(name) for name in ("a2", "a3", "a4")}
    story.agents["a1"] = an_agent("a1", state="lost")
    loads = {"a2": 3, "a3": 1, "a4": 2}
    assert starts(story, loads=loads) == [("b1-online-model", "a3", 2)]
    assert starts(story, loads=loads, turns={"a3": "another"}) == [("b1-online-model", "a4", 2)]
    assert starts(story, loads={}) == [("b1-online-model", "a2", 2)]


def test_an_agent_that_stands_in_is_waited_for() -> None:
    story = planned("a1")
    start(story)
    assert replacement_agents(story.state, story.fleet()) == frozenset()
    lose(story, ["b1-online-model"])
    assert replacement_agents(story.state, story.fleet()) == frozenset()
    story.agents["a1"] = an_agent("a1", state="lost")
    assert replacement_agents(story.state, story.fleet()) == frozenset()
    story.agents["a2"] = an_agent("a2")
    assert replacement_agents(story.state, story.fleet()) == {"a2"}
    story.cancel()
    assert replacement_agents(story.state, story.fleet()) == frozenset()


def test_before_its_plan_an_evaluation_waits_for_no_stand_in() -> None:
    story = Story(random.Random(1))
    story.say(EvaluationRequested(evaluation=E, request=a_request(), requested_ns=0))
    assert replacement_agents(story.state, story.fleet()) == frozenset()


def test_a_group_is_given_up_once_its_last_run_has_waited_long_enough() -> None:
    story = planned("a1", trace_level="framework")
    start(story)
    lose(story, LEVELS[:1], at_s=10)
    lose(story, LEVELS[1:], at_s=20)
    story.agents["a1"] = an_agent("a1", state="lost")

    def given_up(at_s: float) -> list[tuple[str, str]]:
        facts = starts_due(story.state, int(at_s * S_NS), story.fleet())
        return [(each.run, each.cause) for each in facts if isinstance(each, RunInterrupted)]

    # The story's agents are waited for 5 s.
    assert given_up(24.9) == []
    assert given_up(25) == [(run, "agent a1 was lost; no other agent fits") for run in LEVELS]


@pytest.mark.parametrize(("wait_s", "until_s"), [(2, 5), (9, 9)])
def test_a_run_that_was_never_started_waits_since_the_plan(wait_s: int, until_s: int) -> None:
    story = planned("a1", wait_s=wait_s)
    story.agents["a1"] = an_agent("a1", state="left")

    def given_up(at_s: float) -> list[str]:
        facts = starts_due(story.state, int(at_s * S_NS), story.fleet())
        return [each.cause for each in facts if isinstance(each, RunInterrupted) and each.final]

    assert given_up(until_s - 0.1) == []
    assert given_up(until_s) == ["no agent fits any more"]


def test_the_next_group_is_the_first_that_is_not_over() -> None:
    story = planned("a1", scenarios=["online", "batched"])
    assert story.state.plan is not None
    (session,) = story.state.plan.sessions
    groups = []
    for _ in range(3):
        groups.append([run.run for run in next_group(story.state, session, story.fleet())])
        start(story)
        for run in list(story.state.runs.values()):
            if run.is_under_way:
                story.say(completed_fact(run, 1, story.dice))
    assert groups == [["b1-online-model"], ["b1-batched-model"], []]


@pytest.mark.parametrize(
    ("breaks", "agent"),
    [
        (["a1"], "a1"),
        (["a1", "a1"], "a2"),
        (["a1", "a1", "a2"], "a2"),
        (["a1", "a1", "a2", "a2"], "a2"),
    ],
)
def test_who_had_a_group_last_keeps_it_until_it_broke_it_off_twice_and_others_did_not(
    breaks: list[str], agent: str
) -> None:
    story = planned("a1")
    story.agents["a2"] = an_agent("a2")
    for name in breaks:
        restart(story, name)
        lose(story, ["b1-online-model"])
    # The load speaks for the other one.
    loads = {"a1": 7 * (agent == "a1"), "a2": 7 * (agent == "a2")}
    assert [name for _, name, _ in starts(story, loads=loads)] == [agent]


def restart(story: Story, agent: str) -> None:
    """Record a further attempt on an agent."""
    run = story.state.runs["b1-online-model"]
    about = {"evaluation": E, "run": run.run, "session": run.session, "started_ns": 0}
    fact = {"attempt": run.attempt + 1, "agent": agent, "incarnation": "i1"}
    story.say(RunStarted.model_validate(about | fact))
