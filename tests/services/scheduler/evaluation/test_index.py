"""Every evaluation at once: what is open, what ended, who is where, what lists show."""

from dataclasses import replace

import pytest

from mlscope.bus.records import Recorded
from schemas.analysis import Estimate, Headline
from schemas.encoding.codec import encode_body
from schemas.evaluation import (
    EvaluationAnalyzed,
    EvaluationCancelled,
    EvaluationPlanned,
    EvaluationRequested,
    RunInterrupted,
    RunStarted,
)
from schemas.message import Envelope, Fact
from schemas.request import ListEvaluations
from schemas.run import RunFailed, Tally
from schemas.status import EvaluationStatus
from schemas.subjects import subject_of
from services.scheduler.evaluation.index import EvaluationIndex, digest_of_log
from services.scheduler.evaluation.list_sizes import MOST_BYTES, fitting
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import plan
from tests.services.scheduler.samples import a_catalog, a_request

RUN = "b1-online-model"


class Log:
    """A log that a board follows."""

    def __init__(self, board: EvaluationIndex) -> None:
        self.board = board
        self.facts: list[Recorded] = []

    def say(self, fact: Fact) -> None:
        """Record a fact and have the board follow it."""
        number = len(self.facts) + 1
        envelope = Envelope.around(fact, id=f"id{number}", cause="", time_ns=number)
        self.facts.append(Recorded(subject_of(fact), number, envelope, fact))
        self.board.follow(self.facts[-1])

    def request(self, name: str, model: str = "tiny", at_ns: int = 0) -> None:
        """Have an evaluation requested."""
        request = a_request(model=model)
        self.say(EvaluationRequested(evaluation=name, request=request, requested_ns=at_ns))

    def start(self, name: str) -> None:
        """Have an evaluation planned on a1 and its run started."""
        request = a_request()
        made = plan(request, match(request, a_catalog(), {}), a_catalog())
        self.say(EvaluationPlanned(evaluation=name, plan=made))
        self.say(_started(name, 1))

    def cancel(self, name: str) -> None:
        """Have an evaluation ended."""
        self.say(EvaluationCancelled(evaluation=name, reason="enough"))


def _started(name: str, attempt: int) -> RunStarted:
    return RunStarted(
        evaluation=name,
        run=RUN,
        session="b1",
        attempt=attempt,
        agent="a1",
        incarnation="i1",
        started_ns=1,
    )


def _interrupted(name: str, *, final: bool) -> RunInterrupted:
    return RunInterrupted(
        evaluation=name, run=RUN, attempt=1, agent="a1", cause="lost", final=final
    )


def _died(name: str) -> RunFailed:
    return RunFailed(
        evaluation=name,
        run=RUN,
        attempt=1,
        agent="a1",
        error="worker_died",
        message="",
        tally=Tally(),
    )


@pytest.fixture
def log() -> Log:
    return Log(EvaluationIndex(pages="http://here/", max_ended=2))


def test_lists_go_by_request_time_and_show_states_as_they_are(log: Log) -> None:
    log.request("e1", at_ns=30)
    log.request("e2", "other:1.0", at_ns=10)
    log.request("e3", at_ns=20)
    log.cancel("e3")
    listed = log.board.listed(ListEvaluations(limit=10)).evaluations
    assert [(each.evaluation, each.state) for each in listed] == [
        ("e1", "requested"),
        ("e3", "cancelled"),
        ("e2", "requested"),
    ]
    assert [
        each.evaluation
        for each in log.board.listed(ListEvaluations(limit=1, state="requested")).evaluations
    ] == ["e1"]
    assert [
        each.address for each in log.board.listed(ListEvaluations(model="other")).evaluations
    ] == ["http://here/e2"]
    assert log.board.listed(ListEvaluations(model="tiny", state="running")).total == 0


def test_one_that_is_too_large_keeps_no_other_from_being_listed(log: Log) -> None:
    """An answer above 8 MiB is none at all."""
    log.request("e1", at_ns=1)
    log.cancel("e1")
    tables = tuple(f"table {number} {'x' * 3000}" for number in range(3000))
    log.say(EvaluationAnalyzed(evaluation="e1", tables=tables))
    assert log.board.ended.size_bytes < 10_000
    log.request("e2", at_ns=2)
    answer = log.board.listed(ListEvaluations())
    assert len(encode_body(answer)) < MOST_BYTES
    other, large = answer.evaluations
    assert (other.evaluation, other.notes, answer.total) == ("e2", (), 2)
    assert (large.evaluation, large.state, large.cause) == ("e1", "cancelled", "enough")
    assert large.notes == ("too large for a list: its page has the rest",)


def test_in_a_list_that_is_too_large_the_largest_are_shortened() -> None:
    statuses = [
        EvaluationStatus(
            evaluation=f"e{index}",
            state="analyzed",
            model="m",
            requested_ns=0,
            labels={"note": "x" * size},
        )
        for index, size in enumerate((100, 9000, 2000, 3000))
    ]
    listed = fitting(statuses, 7000)
    assert [bool(status.notes) for status in listed] == [False, True, False, False]
    assert [bool(status.notes) for status in fitting(statuses, 4500)] == [False, True, False, True]
    assert fitting(statuses, 20_000) == statuses


def test_a_cancelled_one_is_listed_with_the_tables_of_its_complete_runs(log: Log) -> None:
    log.request("e1", at_ns=1)
    log.cancel("e1")
    log.say(EvaluationAnalyzed(evaluation="e1", tables=("latency",)))
    (listed,) = log.board.listed(ListEvaluations()).evaluations
    assert (listed.state, listed.tables) == ("cancelled", ("latency",))


def test_a_cancelled_one_sorts_by_the_figures_of_its_complete_runs(log: Log) -> None:
    for name, mean_ns in (("slow", 9.0), ("fast", 1.0)):
        log.request(name)
        log.cancel(name)
        headline = Headline(run=RUN, scenario="online", latency_ns=Estimate(value=mean_ns))
        log.say(EvaluationAnalyzed(evaluation=name, tables=("latency",), headlines=(headline,)))
    listed = log.board.listed(ListEvaluations(sort="latency")).evaluations
    assert [each.evaluation for each in listed] == ["fast", "slow"]


def test_ended_ones_beyond_the_bound_leave_the_lists(log: Log) -> None:
    for number in range(4):
        log.request(f"e{number}", at_ns=number)
        log.cancel(f"e{number}")
    assert [each.evaluation for each in log.board.listed(ListEvaluations()).evaluations] == [
        "e3",
        "e2",
    ]


def test_a_fact_of_an_evaluation_nobody_requested_is_passed_over(log: Log) -> None:
    log.cancel("e9")
    assert (log.board.open, list(log.board.ended), log.board.sequence) == ({}, [], 1)


@pytest.mark.parametrize(
    ("fact", "load"),
    [
        (None, 1),
        (_died("e1"), 1),
        (_interrupted("e1", final=False), 1),
        (_interrupted("e1", final=True), 0),
        (EvaluationCancelled(evaluation="e1", reason=""), 0),
    ],
)
def test_an_agents_load_is_what_it_may_still_have_to_do(
    log: Log, fact: Fact | None, load: int
) -> None:
    log.request("e1")
    log.start("e1")
    if fact is not None:
        log.say(fact)
    assert log.board.loads().get("a1", 0) == load
    assert log.board.turns() == ({"a1": "e1"} if load else {})


def test_who_has_a_run_under_way_keeps_its_turn_before_older_requests(log: Log) -> None:
    log.request("late", at_ns=9)
    log.start("late")
    log.request("early", at_ns=1)
    request = a_request()
    made = plan(request, match(request, a_catalog(), {}), a_catalog())
    log.say(EvaluationPlanned(evaluation="early", plan=made))
    assert log.board.turn("a1") == "late"
    log.say(_interrupted("late", final=False))
    assert log.board.turn("a1") == "early"
    assert log.board.agents_of("late") == {"a1"}
    assert log.board.turn("a9") == ""


def test_a_stand_in_is_waited_for_until_something_is_said(log: Log) -> None:
    log.request("e1")
    log.start("e1")
    log.say(_interrupted("e1", final=False))
    log.board.wait_for("e1", ["a2"])
    assert log.board.agents_of("e1") == {"a1", "a2"}
    log.say(_started("e1", 2))
    assert log.board.agents_of("e1") == {"a1"}
    log.board.wait_for("nobody", ["a2"])
    assert log.board.turn("a2") == ""


def test_facts_told_twice_and_by_two_ways_count_once(log: Log) -> None:
    log.request("e1")
    log.start("e1")
    twice = EvaluationIndex()
    for recorded in log.facts:
        twice.take(recorded)
        twice.follow(recorded)
        assert twice.take(replace(recorded)) is None
    assert twice.digest() == log.board.digest() == digest_of_log(log.facts)
    assert twice.loads() == log.board.loads()


def test_the_digest_counts_ended_evaluations_even_when_they_are_forgotten(log: Log) -> None:
    digests = [log.board.digest()]
    for number in range(4):
        log.request(f"e{number}")
        digests.append(log.board.digest())
        log.cancel(f"e{number}")
        digests.append(log.board.digest())
    assert len(set(digests)) == len(digests)
    assert len(log.board.ended) == 2
