"""Neighbours that never say their word: what is waited for, and for how long."""

import random
from dataclasses import replace
from typing import Any

from schemas.evaluation import EvaluationFailed, EvaluationMeasured, EvaluationRequested
from services.scheduler.decide import S_NS, decide
from services.scheduler.fleet import Fleet, Limits
from services.scheduler.state import Run
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.test_decide import E, Story, _completed, _stored

WAITS = Limits(recording_wait_s=900, analysis_wait_s=1800)


def completed(*scenarios: str) -> Story:
    """Return an evaluation whose runs have all completed, none recorded."""
    story = Story(random.Random(1))
    story.agents["a1"] = an_agent("a1")
    request = a_request(scenarios=list(scenarios))
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    while story.settle():
        for run in story.state.runs.values():
            if run.is_under_way:
                story.say(_completed(run, run.attempt, story.dice))
    return story


def follows(story: Story, after_s: float) -> list[Any]:
    """Return what is decided so long after the last word."""
    return decide(story.state, story.now_ns + int(after_s * S_NS), _patient(story))


def _patient(story: Story) -> Fleet:
    return replace(story.fleet(), limits=WAITS)


def first(story: Story) -> Run:
    return next(iter(story.state.runs.values()))


def test_a_collector_that_never_speaks_fails_the_evaluation_in_the_end() -> None:
    story = completed("online")
    assert follows(story, 899) == []
    [failed] = follows(story, 900)
    assert isinstance(failed, EvaluationFailed)
    assert failed.cause == "the collector said nothing of it for 900 s"


def test_a_run_the_collector_forgot_is_named_beside_those_it_recorded() -> None:
    story = completed("online", "batched")
    story.say(_stored(first(story), 1, story.dice))
    assert follows(story, 899) == []
    [measured] = follows(story, 900)
    assert isinstance(measured, EvaluationMeasured)
    assert [run.end for run in measured.runs] == ["completed", "incomplete"]
    assert [bool(run.cause) for run in measured.runs] == [False, True]


def test_an_analyzer_that_never_speaks_fails_the_evaluation_in_the_end() -> None:
    story = completed("online")
    story.say(_stored(first(story), 1, story.dice))
    story.settle()
    assert story.state.state == "measured"
    assert follows(story, 1799) == []
    [failed] = follows(story, 1800)
    assert failed.cause == "analysis failed: the analyzer said nothing for 1800 s"
