"""The live view of an evaluation and its record are the same at every prefix of every story."""

import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlscope.bus.records import Recorded
from mlscope.evaluation.fold import EvaluationRecord, evolve, fold
from mlscope.evaluation.status import record_of, status_of
from schemas.encoding.codec import decode_body, encode_body
from schemas.evaluation import EvaluationRequested, RunStarted
from schemas.message import Fact
from schemas.status import EvaluationStatus
from services.scheduler.evaluation.attempts import S_NS
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.evaluation.state import evolve as evolve_state
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.stories import (
    E,
    Story,
    completed_fact,
    random_story,
    stored_fact,
)

SEEDS = st.integers(0, 10_000)


def records_of(log: Sequence[Recorded]) -> list[EvaluationStatus]:
    """Return what the scheduler answers after each prefix of a log, the empty one left out."""
    state, answers = EvaluationState(), []
    for recorded in log:
        state = evolve_state(state, recorded)
        answers.append(status_of(state))
    return answers


def views_of(record: EvaluationRecord, log: Sequence[Recorded]) -> Iterator[EvaluationStatus]:
    """Yield what a live view shows after each fact of a log that it heard."""
    for recorded in log:
        record = evolve(record, recorded.fact)
        yield status_of(record)


def received(status: EvaluationStatus) -> EvaluationRecord:
    """Return the record of a status that a client received as an answer."""
    return record_of(decode_body(EvaluationStatus, encode_body(status)))


def is_told_in_time(log: Sequence[Recorded], number: int) -> bool:
    """Tell whether the attempt that a fact reports on was started before."""
    fact = log[number].fact
    if isinstance(fact, RunStarted) or not hasattr(fact, "run"):
        return True
    starts = [recorded.fact for recorded in log[:number]]
    attempts = [(start.run, start.attempt) for start in starts if isinstance(start, RunStarted)]
    return (fact.run, getattr(fact, "attempt", 0)) in attempts


@given(SEEDS)
@settings(deadline=None)
def test_a_view_from_the_beginning_is_the_record(seed: int) -> None:
    log = random_story(seed).log
    assert list(views_of(EvaluationRecord(), log)) == records_of(log)


@given(SEEDS, st.data())
@settings(deadline=None)
def test_a_view_from_any_status_is_the_record(seed: int, data: st.DataObject) -> None:
    log = random_story(seed).log
    records = records_of(log)
    start = data.draw(st.integers(1, len(log)))
    view = received(records[start - 1])
    assert status_of(view) == records[start - 1]
    assert list(views_of(view, log[start:])) == records[start:]


@given(SEEDS, st.data())
@settings(deadline=None)
def test_facts_that_a_status_contains_do_no_harm(seed: int, data: st.DataObject) -> None:
    """A watcher hears facts before it has the status that contains them.

    Reports on an attempt before its start are left out: no agent knows of it by then.
    """
    log = random_story(seed).log
    records = records_of(log)
    start = data.draw(st.integers(1, len(log)))
    first = data.draw(st.integers(0, start))
    view = received(records[start - 1])
    for number in range(first, start):
        if is_told_in_time(log, number):
            assert evolve(view, log[number].fact) is view, log[number].fact
    assert list(views_of(view, log[start:])) == records[start:]


def lost_for_good() -> Story:
    """Return the story of an evaluation one of whose two agents is lost for good."""
    story = Story(random.Random(1), agents={"a1": an_agent("a1"), "a2": an_agent("a2")})
    request = a_request(spread="all")
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    story.settle()
    survivor, _ = sorted(story.state.runs.values(), key=lambda run: run.agent)
    story.agents["a2"] = an_agent("a2", state="lost")
    story.say(completed_fact(survivor, survivor.attempt, story.dice))
    story.say(stored_fact(survivor, survivor.attempt, story.dice))
    story.settle()
    story.now_ns += 60 * S_NS
    story.settle()
    return story


def test_a_run_whose_agent_is_lost_for_good_is_interrupted_live_and_in_the_record() -> None:
    log = lost_for_good().log
    assert " ".join(recorded.fact.happened for recorded in log) == (
        "requested planned started started completed recorded interrupted interrupted measured"
    )
    record = records_of(log)[-1]
    (*_, view) = views_of(EvaluationRecord(), log)
    assert [run.state for run in record.runs] == ["recorded", "interrupted"]
    assert [run.final for run in record.runs] == [False, True]
    assert view == record


@pytest.mark.parametrize("seed", range(20))
def test_the_gateways_fold_of_a_log_is_the_record(seed: int) -> None:
    story = random_story(seed, turns=120)
    facts: list[Fact] = [recorded.fact for recorded in story.log]
    assert status_of(fold(facts)) == status_of(story.state)
