"""A run as the scheduler needs it: whether work on it is left, who issues it, how it ended."""

import random
from typing import Any

import pytest

from schemas.evaluation import EvaluationRequested, RunInterrupted, RunIssued
from schemas.message import Fact
from schemas.run import BlockStatistics, RunCompleted, RunFailed, RunIncomplete, RunReady
from services.scheduler.evaluation.runs import Run, measured_run
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.stories import E, Story, completed_fact, stored_fact


def started(scenario: str = "online") -> Story:
    """Return an evaluation whose only run was started at 5 ns."""
    story = Story(random.Random(1), now_ns=5, agents={"a1": an_agent("a1")})
    request = a_request(scenarios=[scenario])
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    story.settle()
    return story


def only(story: Story) -> Run:
    """Return the run of a story that has one."""
    (run,) = story.state.runs.values()
    return run


def after(story: Story, *facts: Fact, now_ns: int = 9) -> Run:
    """Return the run after facts that are recorded at `now_ns`."""
    story.now_ns = now_ns
    for fact in facts:
        story.say(fact)
    return only(story)


def about(story: Story, **more: Any) -> dict[str, Any]:
    return {"evaluation": E, "run": only(story).run, "attempt": 1, "agent": "a1"} | more


def failed(story: Story, error: str) -> Fact:
    return RunFailed.model_validate(about(story, error=error, message="x"))


def interrupted(story: Story, *, final: bool) -> Fact:
    return RunInterrupted.model_validate(about(story, cause="lost", final=final))


def test_work_is_left_until_a_run_has_ended_or_is_given_up() -> None:
    assert only(started()).is_unfinished
    for end in (completed_fact(only(started()), 1, random.Random(1)), failed(started(), "predict")):
        assert not after(started(), end).is_unfinished
    assert after(started(), interrupted(started(), final=False)).is_unfinished
    assert not after(started(), interrupted(started(), final=True)).is_unfinished


def test_a_run_whose_worker_died_is_repeated_unless_it_is_given_up() -> None:
    story = started()
    assert after(story, failed(story, "worker_died")).is_unfinished
    assert not after(story, interrupted(story, final=True)).is_unfinished


def test_a_remote_load_waits_for_an_issuer_once_its_agent_is_ready() -> None:
    story = started("poisson")
    assert not only(story).awaits_issuer
    assert after(story, RunReady.model_validate(about(story))).awaits_issuer
    issued = RunIssued.model_validate(about(story, issuer="s1"))
    run = after(story, issued, now_ns=77)
    assert (run.awaits_issuer, run.issuer, run.issued_ns) == (False, "s1", 77)


def test_a_remote_load_that_was_broken_off_waits_for_no_issuer() -> None:
    story = started("poisson")
    after(story, RunReady.model_validate(about(story)))
    assert not after(story, interrupted(story, final=False)).awaits_issuer


def test_a_local_load_needs_no_issuer() -> None:
    story = started()
    assert not after(story, RunReady.model_validate(about(story))).awaits_issuer


def test_a_run_knows_since_when_it_is_in_its_state() -> None:
    story = started()
    assert (only(story).since_ns, only(story).started_ns) == (5, 5)
    assert after(story, RunReady.model_validate(about(story)), now_ns=6).since_ns == 5
    assert after(story, completed_fact(only(story), 1, story.dice), now_ns=7).since_ns == 7
    assert after(story, stored_fact(only(story), 1, story.dice), now_ns=8).since_ns == 8
    assert after(story, stored_fact(only(story), 1, story.dice), now_ns=9).since_ns == 8


def test_an_interruption_that_becomes_final_begins_its_state_anew() -> None:
    story = started()
    assert after(story, interrupted(story, final=False), now_ns=7).since_ns == 7
    run = after(story, interrupted(story, final=True), now_ns=8)
    assert (run.since_ns, run.attempts_lost) == (8, 1)


def test_the_first_block_of_a_completed_run_is_kept() -> None:
    story = started()
    completed = completed_fact(only(story), 1, story.dice)
    assert isinstance(completed, RunCompleted)
    blocks = tuple(BlockStatistics(block=n, queries=1, median_ns=10 + n) for n in range(2))
    elsewhere = completed.model_copy(update={"blocks": blocks, "agent": "a2"})
    assert after(story, elsewhere).first_block_ns == 0
    assert after(story, completed.model_copy(update={"blocks": blocks})).first_block_ns == 10


def test_a_measured_run_has_the_collectors_counts_or_a_cause() -> None:
    story = started()
    silent = after(story, completed_fact(only(story), 1, story.dice))
    end = measured_run(silent, "nobody counted")
    assert (end.end, end.cause, end.spans, end.queries) == ("incomplete", "nobody counted", 0, 0)
    recorded = after(story, stored_fact(silent, 1, story.dice))
    end = measured_run(recorded, "nobody counted")
    assert (end.end, end.cause, end.spans, end.queries) == ("completed", "", 1, 2)
    assert (end.run, end.attempt, end.agent) == ("b1-online-model", 1, "a1")


def test_a_measured_run_with_missing_batches_says_how_many() -> None:
    story = started()
    counts = {"spans": 1, "queries": 2, "outputs": 0, "announced_batches": 3, "stored_batches": 2}
    short = RunIncomplete.model_validate(about(story, **counts))
    run = after(story, completed_fact(only(story), 1, story.dice), short)
    end = measured_run(run, "nobody counted")
    assert (end.end, end.cause) == ("incomplete", "2 of 3 batches were stored")


@pytest.mark.parametrize("error", ["predict", "worker_died"])
def test_a_failed_run_keeps_its_cause(error: str) -> None:
    story = started()
    end = measured_run(after(story, failed(story, error)), "nobody counted")
    assert (end.end, end.cause) == ("failed", f"{error}: x")
