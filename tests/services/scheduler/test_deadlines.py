"""The last resort against a run that nobody ends, and what it must not count."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from schemas.evaluation import EvaluationRequested, RunInterrupted
from services.scheduler.evaluation.attempts import S_NS
from services.scheduler.placement.fleet import Attempt, Fleet
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.stories import E, Story

TIMEOUT_S, GRACE_S = 60, 5
NAME = Attempt(E, "b1-online-model", 1)


@dataclass
class Slow(Story):
    """A story whose agents say how long they brought files."""

    fetching_s: Mapping[str, Mapping[Attempt, float]] = field(default_factory=dict)

    def fleet(self) -> Fleet:
        """Return the world with what agents say."""
        return replace(super().fleet(), fetching_s=self.fetching_s)


def begun() -> Slow:
    """Return an evaluation whose only run is under way since the epoch."""
    story = Slow(random.Random(1))
    story.agents["a1"] = an_agent("a1")
    request = a_request(run_timeout_s=TIMEOUT_S, trace_level="model")
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    story.settle()
    return story


def is_ended_at(story: Slow, time_s: float) -> bool:
    """Tell whether the run is broken off by then."""
    story.now_ns = int(time_s * S_NS)
    story.settle()
    said = [each.fact for each in story.log if isinstance(each.fact, RunInterrupted)]
    assert all("time-out" in fact.cause for fact in said)
    return bool(said)


@pytest.mark.parametrize(
    ("agent", "name", "brought_s", "until_s"),
    [
        ("a1", NAME, 0.0, TIMEOUT_S + GRACE_S),
        ("a1", NAME, 1000.0, 1000 + TIMEOUT_S + GRACE_S),
        ("a2", NAME, 1000.0, TIMEOUT_S + GRACE_S),
        ("a1", (E, NAME[1], 2), 1000.0, TIMEOUT_S + GRACE_S),
        ("a1", NAME, 1e9, 86_400 + TIMEOUT_S + GRACE_S),
    ],
)
def test_what_bringing_its_files_took_is_not_counted_against_a_run(
    agent: str, name: Attempt, brought_s: float, until_s: float
) -> None:
    story = begun()
    assert list(story.state.runs) == [NAME[1]]
    story.fetching_s = {agent: {name: brought_s}}
    assert not is_ended_at(story, until_s - 1)
    assert is_ended_at(story, until_s)


def test_runs_of_other_sessions_and_groups_lengthen_no_deadline() -> None:
    story = Slow(random.Random(1))
    story.agents["a1"] = an_agent("a1")
    request = a_request(
        scenarios=["batched", "batched"], batch_sizes=[1, 2, 4], run_timeout_s=TIMEOUT_S
    )
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    story.settle()
    assert len(story.state.runs) == 6
    assert not is_ended_at(story, TIMEOUT_S + GRACE_S - 1)
    assert is_ended_at(story, TIMEOUT_S + GRACE_S)
