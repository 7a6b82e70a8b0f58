"""Evaluations as folds and decisions, against neighbours that do anything in any order."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mlscope.bus.records import Recorded
from schemas.analysis import AnalysisCompleted
from schemas.encoding.message_index import FACTS
from schemas.evaluation import (
    EvaluationMeasured,
    EvaluationRequested,
    RunInterrupted,
    RunStarted,
)
from schemas.run import RunRecorded
from services.scheduler.evaluation.attempts import S_NS, decide_broken
from services.scheduler.evaluation.digests import digest_of_state
from services.scheduler.evaluation.effects import Start, effects
from services.scheduler.evaluation.index import EvaluationIndex, digest_of_log
from services.scheduler.evaluation.state import SCHEDULED, EvaluationState, evolve, fold
from services.scheduler.placement.fleet import Limits
from tests.services.scheduler.samples import a_request, an_agent
from tests.services.scheduler.stories import (
    E,
    Story,
    completed_fact,
    random_story,
    stored_fact,
)
from tests.thoroughness import examples

SEEDS = st.integers(0, 10_000)


@given(SEEDS)
@settings(deadline=None)
def test_folding_again_gives_the_same(seed: int) -> None:
    story = random_story(seed)
    assert fold(story.log) == story.state
    assert digest_of_state(fold(story.log)) == digest_of_state(story.state)


@given(SEEDS)
@settings(deadline=None)
def test_a_fact_said_again_at_once_or_later_changes_nothing(seed: int) -> None:
    story = random_story(seed)
    doubled: list[Recorded] = []
    for recorded in story.log:
        doubled += [recorded, recorded]
    assert digest_of_state(fold(doubled)) == digest_of_state(story.state)
    moved = [replace(r, sequence=len(story.log) + n) for n, r in enumerate(story.log, 1)]
    known = digest_of_state(fold(story.log))
    decisions = [r for r in moved if r.fact.entity == "evaluation"]
    assert digest_of_state(fold([*story.log, *decisions])) == known


@given(SEEDS)
@settings(deadline=None)
def test_nothing_is_decided_twice(seed: int) -> None:
    story = random_story(seed)
    ids = Counter(r.envelope.id for r in story.log if r.fact.entity == "evaluation")
    assert [each for each, times in ids.items() if times > 1] == []


@given(SEEDS)
@settings(deadline=None)
def test_every_history_comes_to_an_end(seed: int) -> None:
    """Whatever happened before: once agents answer or stay away, it ends within bounds."""
    story = random_story(seed, turns=30)
    stays_away = story.dice.random() < 0.3
    for agent in ("a1", "a2"):
        story.agents[agent] = an_agent(agent, state="lost" if stays_away else "live")
    for _ in range(200):
        if story.state.is_ended:
            return
        story.now_ns += 2 * S_NS
        for run in list(story.state.runs.values()):
            if run.is_under_way:
                story.say(completed_fact(run, run.attempt, story.dice))
            if run.state in ("ended", "failed"):
                story.say(stored_fact(run, run.attempt, story.dice))
        if story.state.state == "measured":
            story.say(AnalysisCompleted(evaluation=E, tables=()))
        story.settle()
    raise AssertionError(f"still {story.state.state}: {story.state.runs}")


@given(SEEDS)
@settings(deadline=None)
def test_an_ended_evaluation_changes_no_more(seed: int) -> None:
    story = random_story(seed)
    story.cancel()
    before = story.state
    for _ in range(5):
        story.publish_report()
    assert _but_counts(story.state) == _but_counts(before)
    # What a cancellation left is measured, and analyzed.
    assert story.settle() <= 2 * (before.state == "cancelled")
    assert story.state.state == before.state


def _but_counts(state: EvaluationState) -> EvaluationState:
    """Return a state without what still arrives when an evaluation is over."""
    runs = {name: replace(run, announced=None, stored=None) for name, run in state.runs.items()}
    return replace(state, runs=runs, sequence=0, last_id="", analyzed=None, found_headlines=())


@given(SEEDS)
@settings(deadline=None)
def test_a_cancelled_evaluation_is_measured_once_with_every_run_that_has_rows(seed: int) -> None:
    story = random_story(seed, turns=30)
    assume(story.state.analyzed is None and not (story.state.is_ended or story.state.measured_ns))
    runs = story.state.runs.values()
    complete = {run.run for run in runs if run.outcome == "completed"}
    under_way = {run.run for run in runs if run.is_under_way}
    story.cancel()
    for run in list(story.state.runs.values()):
        story.say(stored_fact(run, max(run.attempt, 1), story.dice))
        story.settle()
    ends = {run.run: run for fact in measured_in(story) for run in fact.runs}
    assert ends.keys() == complete | under_way
    assert len(measured_in(story)) == bool(ends)
    assert {name for name, run in ends.items() if run.end == "cancelled"} == under_way
    assert all(ends[name].queries == 2 for name in under_way)


def measured_in(story: Story) -> list[EvaluationMeasured]:
    """Return the facts of a story that say what was measured."""
    return [entry.fact for entry in story.log if isinstance(entry.fact, EvaluationMeasured)]


@pytest.fixture
def one_run() -> Story:
    """Return an evaluation whose only run is under way."""
    story = Story(random.Random(1), now_ns=1)
    story.agents["a1"] = an_agent("a1")
    story.say(EvaluationRequested(evaluation=E, request=a_request(), requested_ns=0))
    story.settle()
    return story


ABOUT = {"evaluation": E, "run": "b1-online-model", "attempt": 1}


@pytest.mark.parametrize(("queries", "ends"), [(0, []), (4, ["cancelled"])])
def test_what_is_cut_off_is_measured_once_counted_if_it_has_rows(
    one_run: Story, queries: int, ends: list[str]
) -> None:
    one_run.cancel()
    assert (one_run.settle(), measured_in(one_run)) == (0, [])
    one_run.say(RunRecorded.model_validate(ABOUT | {"spans": 9, "queries": queries, "outputs": 0}))
    one_run.settle()
    assert [run.end for fact in measured_in(one_run) for run in fact.runs] == ends


@pytest.mark.parametrize("is_final", [False, True], ids=["lost", "given up"])
def test_a_run_that_was_interrupted_before_the_cancellation_is_not_measured(
    one_run: Story, is_final: bool
) -> None:
    lost = {"agent": "a1", "cause": "agent lost", "final": is_final}
    one_run.say(RunInterrupted.model_validate(ABOUT | lost))
    one_run.cancel()
    one_run.say(RunRecorded.model_validate(ABOUT | {"spans": 9, "queries": 4, "outputs": 0}))
    assert (one_run.settle(), measured_in(one_run)) == (0, [])


@given(SEEDS)
@settings(deadline=None)
def test_attempts_are_bounded_and_count_up(seed: int) -> None:
    story = random_story(seed, turns=200)
    starts: dict[str, list[int]] = {}
    for recorded in story.log:
        if isinstance(recorded.fact, RunStarted):
            starts.setdefault(recorded.fact.run, []).append(recorded.fact.attempt)
    for attempts in starts.values():
        assert attempts == sorted(set(attempts))
        assert len(attempts) <= 5 + 3


@given(SEEDS)
@settings(deadline=None)
def test_an_agent_has_one_group_of_an_evaluation_at_a_time(seed: int) -> None:
    story = random_story(seed)
    state = EvaluationState()
    for recorded in story.log:
        state = evolve(state, recorded)
        under_way = [run for run in state.runs.values() if run.is_under_way]
        for agent in {run.agent for run in under_way}:
            groups = {(r.session, r.plan.group) for r in under_way if r.agent == agent}
            assert len(groups) == 1
        wanted = [each for each in effects(state, story.fleet()) if isinstance(each, Start)]
        assert len(wanted) == len({(run.session) for run in under_way})


@given(st.lists(SEEDS, min_size=2, max_size=3, unique=True), st.randoms())
@settings(deadline=None, max_examples=examples(30))
def test_the_boards_digest_is_indifferent_to_order_among_evaluations(
    seeds: list[int], dice: random.Random
) -> None:
    logs = [_renamed(random_story(seed).log, f"e{number}") for number, seed in enumerate(seeds)]
    one = [recorded for log in logs for recorded in log]
    mixed: list[Recorded] = []
    queues = [list(log) for log in logs]
    while any(queues):
        mixed.append(dice.choice([queue for queue in queues if queue]).pop(0))
    assert digest_of_log(one) == digest_of_log(mixed)
    assert digest_of_log(one) != digest_of_log(logs[0])


def _renamed(log: list[Recorded], name: str) -> list[Recorded]:
    return [replace(r, fact=r.fact.model_copy(update={"evaluation": name})) for r in log]


def test_ended_evaluations_are_bounded_and_the_digest_keeps_them() -> None:
    story = random_story(7)
    story.cancel()
    logs = [_renamed(story.log, f"e{number}") for number in range(4)]
    board = EvaluationIndex(max_ended=2)
    for recorded in (each for log in logs for each in log):
        board.follow(recorded)
    late = replace(logs[0][-1], sequence=10_000)
    board.follow(late)
    assert (len(board.open), list(board.ended)) == (0, ["e2", "e3"])
    assert board.digest() == digest_of_log(each for log in logs for each in log)


def test_every_fact_of_an_evaluation_is_folded() -> None:
    for kind in [each for each in FACTS.values() if each.entity == "evaluation"]:
        assert kind in SCHEDULED, kind


@pytest.mark.parametrize(
    ("runs", "attempt", "most", "expected"),
    [
        (["b1-online-model"], 1, 5, [("b1-online-model", False)]),
        (["b1-online-model"], 1, 1, [("b1-online-model", True)]),
        (["b1-online-model"], 2, 5, []),
        (["b1-batched-model"], 1, 5, []),
        (["b9-unknown", "b1-online-model"], 1, 5, [("b1-online-model", False)]),
        ([], 1, 5, []),
    ],
)
def test_only_an_attempt_under_way_is_broken_off(
    runs: list[str], attempt: int, most: int, expected: list[tuple[str, bool]]
) -> None:
    story = Story(random.Random(1), agents={"a1": an_agent("a1")})
    request = a_request(scenarios=["online", "batched"])
    story.say(EvaluationRequested(evaluation=E, request=request, requested_ns=0))
    story.settle()
    facts = decide_broken(story.state, runs, attempt, "why", Limits(attempts_lost=most))
    told = [each for each in facts if isinstance(each, RunInterrupted)]
    assert [(each.run, each.final) for each in told] == expected
    assert {each.cause for each in told} <= {"why"}
    story.cancel()
    assert decide_broken(story.state, runs, attempt, "why", Limits()) == []
