"""Runs on every agent: each run belongs to its agent, and to no other."""

import random

from schemas.evaluation import EvaluationMeasured, EvaluationRequested, RunStarted
from services.scheduler.decide import S_NS
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.test_decide import E, Story, _completed, _stored


def test_a_lost_agent_s_runs_end_with_the_cause_and_go_to_no_other() -> None:
    story = Story(random.Random(1))
    story.agents |= {name: an_agent(name) for name in ("a1", "a2")}
    request = a_request(spread="all")
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    story.settle()
    own, others = sorted(story.state.runs.values(), key=lambda run: run.agent)
    story.agents["a2"] = an_agent("a2", state="lost")
    story.say(_completed(own, own.attempt, story.dice))
    story.say(_stored(own, own.attempt, story.dice))
    story.settle()
    story.now_ns += 10 * S_NS
    story.settle()
    started = [each.fact for each in story.log if isinstance(each.fact, RunStarted)]
    assert sorted(fact.agent for fact in started) == ["a1", "a2"]
    (measured,) = [each.fact for each in story.log if isinstance(each.fact, EvaluationMeasured)]
    ends = {run.run: (run.end, run.cause) for run in measured.runs}
    assert ends[own.plan.run] == ("completed", "")
    assert ends[others.plan.run] == (
        "failed",
        "agent a2 was lost; no other agent does what is this one's",
    )
