"""Evaluations as folds and decisions, against neighbours that do anything in any order."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlscope.bus.bus import Recorded
from schemas.analysis import AnalysisCompleted, AnalysisFailed
from schemas.catalogue import FACTS
from schemas.evaluation import EvaluationRequested, RunInterrupted, RunStarted
from schemas.message import Envelope, Fact
from schemas.run import (
    ClockOrigin,
    Conditions,
    RunCompleted,
    RunFailed,
    RunIncomplete,
    RunReady,
    RunRecorded,
    Tally,
)
from schemas.status import AgentStatus
from schemas.subjects import subject_of
from services.scheduler.board import Board, digest_of_log
from services.scheduler.decide import S_NS, decide, decide_broken, decide_cancel
from services.scheduler.effects import Start, effects
from services.scheduler.fleet import Fleet, Limits
from services.scheduler.recording import decision_id
from services.scheduler.state import _STEPS, EvaluationState, Run, evolve, fold
from services.scheduler.status import digest_of_state
from tests.services.scheduler.samples import a_catalog, a_request, an_agent

E = "e1"
REQUEST = a_request(
    scenarios=["online", "batched"], batch_sizes=[1, 2], trace_level="framework", wait_s=5
)


@dataclass
class Story:
    """A log that grows by decisions and by what neighbours say; the world turns by dice."""

    dice: random.Random
    now_ns: int = 0
    log: list[Recorded] = field(default_factory=list)
    state: EvaluationState = field(default_factory=EvaluationState)
    agents: dict[str, AgentStatus] = field(default_factory=dict)

    def say(self, fact: Fact, fact_id: str = "") -> None:
        """Record a fact and fold it."""
        number = len(self.log) + 1
        envelope = Envelope.around(fact, id=fact_id or f"id{number}", cause="", time_ns=self.now_ns)
        self.log.append(Recorded(subject_of(fact), number, envelope, fact))
        self.state = evolve(self.state, self.log[-1])

    def fleet(self) -> Fleet:
        """Return the agents as they are now."""
        limits = Limits(agent_grace_s=5, run_grace_s=5, lease_ttl_s=1, stored_wait_s=5)
        return Fleet(catalog=a_catalog(*self.agents.values()), limits=limits)

    def settle(self) -> int:
        """Record decisions until none follows; return how many there were."""
        for count in range(100):
            facts = decide(self.state, self.now_ns, self.fleet())
            if not facts:
                return count
            for fact in facts:
                self.say(fact, decision_id(fact))
        raise AssertionError("it decides for ever")

    def cancel(self) -> None:
        """End it on request, unless it has ended."""
        if not self.state.is_ended:
            for fact in decide_cancel(self.state, "enough"):
                self.say(fact, decision_id(fact))

    def turn_agent(self) -> None:
        """Let an agent come, be lost, leave or start anew."""
        name = self.dice.choice(["a1", "a2"])
        state = self.dice.choice(["live", "live", "lost", "left"])
        incarnation = self.dice.choice(["i1", "i2"])
        self.agents[name] = an_agent(name, state=state, incarnation=incarnation)

    def some_run(self) -> Run | None:
        """Return any run, most likely one under way."""
        runs = list(self.state.runs.values())
        under_way = [run for run in runs if run.is_under_way]
        return self.dice.choice(under_way or runs) if runs else None

    def neighbours_say(self) -> None:
        """Let agent, collector or analyzer say something of a run, maybe of an older attempt."""
        run = self.some_run()
        if run is None:
            return
        attempt = max(1, run.attempt - self.dice.choice([0, 0, 0, 1]))
        fact = self.dice.choice([_ready, _completed, _completed, _failed, _stored, _short, _tables])
        self.say(fact(run, attempt, self.dice))


def _about(run: Run, attempt: int) -> dict[str, object]:
    return {"evaluation": E, "run": run.plan.run, "attempt": attempt, "agent": run.agent or "a1"}


def _ready(run: Run, attempt: int, _: random.Random) -> Fact:
    return RunReady.model_validate(_about(run, attempt))


def _completed(run: Run, attempt: int, _: random.Random) -> Fact:
    origin = ClockOrigin(monotonic_ns=1, epoch_start_ns=1)
    told = {"tally": {}, "origin": origin, "conditions": Conditions()}
    return RunCompleted.model_validate(_about(run, attempt) | told)


def _failed(run: Run, attempt: int, dice: random.Random) -> Fact:
    error = dice.choice(["worker_died", "worker_died", "predict"])
    return RunFailed.model_validate(_about(run, attempt) | {"error": error, "message": "x"})


def _stored(run: Run, attempt: int, _: random.Random) -> Fact:
    counts = {"spans": 1, "queries": 2, "outputs": 3}
    return RunRecorded.model_validate(_about(run, attempt) | counts)


def _short(run: Run, attempt: int, _: random.Random) -> Fact:
    counts = {"spans": 1, "queries": 2, "outputs": 3, "announced_batches": 2, "stored_batches": 1}
    return RunIncomplete.model_validate(_about(run, attempt) | counts)


def _tables(_: Run, __: int, dice: random.Random) -> Fact:
    if dice.random() < 0.2:
        return AnalysisFailed(evaluation=E, cause="no rows")
    return AnalysisCompleted(evaluation=E, tables=("latency",))


def told(seed: int, turns: int = 60) -> Story:
    """Tell a story by the dice of a seed; not every story is over after so many turns."""
    story = Story(random.Random(seed))
    story.turn_agent()
    story.say(EvaluationRequested(evaluation=E, request=REQUEST, requested_ns=0))
    for _ in range(turns):
        story.settle()
        story.now_ns += int(story.dice.random() * S_NS)
        story.dice.choice([story.turn_agent, story.neighbours_say, story.neighbours_say])()
        if story.state.planned_ns and story.dice.random() < 0.02:
            story.cancel()
    story.settle()
    return story


SEEDS = st.integers(0, 10_000)


@given(SEEDS)
@settings(deadline=None)
def test_folding_again_gives_the_same(seed: int) -> None:
    story = told(seed)
    assert fold(story.log) == story.state
    assert digest_of_state(fold(story.log)) == digest_of_state(story.state)


@given(SEEDS)
@settings(deadline=None)
def test_a_fact_said_again_at_once_or_later_changes_nothing(seed: int) -> None:
    story = told(seed)
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
    story = told(seed)
    ids = Counter(r.envelope.id for r in story.log if r.fact.entity == "evaluation")
    assert [each for each, times in ids.items() if times > 1] == []


@given(SEEDS)
@settings(deadline=None)
def test_every_history_comes_to_an_end(seed: int) -> None:
    """Whatever happened before: once agents answer or stay away, it ends within bounds."""
    story = told(seed, turns=30)
    stays_away = story.dice.random() < 0.3
    for agent in ("a1", "a2"):
        story.agents[agent] = an_agent(agent, state="lost" if stays_away else "live")
    for _ in range(200):
        if story.state.is_ended:
            return
        story.now_ns += 2 * S_NS
        for run in list(story.state.runs.values()):
            if run.is_under_way:
                story.say(_completed(run, run.attempt, story.dice))
            if run.state in ("ended", "failed"):
                story.say(_stored(run, run.attempt, story.dice))
        if story.state.state == "measured":
            story.say(AnalysisCompleted(evaluation=E, tables=()))
        story.settle()
    raise AssertionError(f"still {story.state.state}: {story.state.runs}")


@given(SEEDS)
@settings(deadline=None)
def test_an_ended_evaluation_changes_no_more(seed: int) -> None:
    story = told(seed)
    story.cancel()
    before = story.state
    for _ in range(5):
        story.neighbours_say()
    assert _but_counts(story.state) == _but_counts(before)
    assert story.settle() == 0


def _but_counts(state: EvaluationState) -> EvaluationState:
    """Return a state without what still arrives when an evaluation is over."""
    runs = {
        name: replace(run, tally=Tally(), spans=0, queries=0, is_stored=False)
        for name, run in state.runs.items()
    }
    return replace(state, runs=runs, sequence=0, last_id="")


@given(SEEDS)
@settings(deadline=None)
def test_attempts_are_bounded_and_count_up(seed: int) -> None:
    story = told(seed, turns=200)
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
    story = told(seed)
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
@settings(deadline=None, max_examples=30)
def test_the_boards_digest_is_indifferent_to_order_among_evaluations(
    seeds: list[int], dice: random.Random
) -> None:
    logs = [_renamed(told(seed).log, f"e{number}") for number, seed in enumerate(seeds)]
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
    story = told(7)
    story.cancel()
    logs = [_renamed(story.log, f"e{number}") for number in range(4)]
    board = Board(most_ended=2)
    for recorded in (each for log in logs for each in log):
        board.follow(recorded)
    late = replace(logs[0][-1], sequence=10_000)
    board.follow(late)
    assert (len(board.open), list(board.ended)) == (0, ["e2", "e3"])
    assert board.digest() == digest_of_log(each for log in logs for each in log)


def test_every_fact_of_an_evaluation_is_folded() -> None:
    for kind in [each for each in FACTS.values() if each.entity == "evaluation"]:
        assert kind in _STEPS, kind


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
