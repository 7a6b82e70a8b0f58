"""How long a plan's runs will take, from how long runs like them took."""

from typing import Any

import pytest

from mlscope.bus.records import Recorded
from schemas.evaluation import (
    EvaluationCancelled,
    EvaluationMeasured,
    EvaluationPlanned,
    EvaluationRequested,
    RunStarted,
)
from schemas.message import Envelope, Fact
from schemas.people import THE_USER, Asker
from schemas.plan import Plan
from schemas.request import Evaluate
from schemas.run import ClockOrigin, Conditions, RunCompleted, Tally
from schemas.subjects import subject_of
from services.scheduler.evaluation.index import EvaluationIndex
from services.scheduler.evaluation.past_durations import PastDurations
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import plan
from tests.services.scheduler.samples import a_catalog, a_model, a_request, an_agent

S_NS = 1_000_000_000
CATALOG = a_catalog(an_agent("a1"), an_agent("a2"))


def planned(request: Evaluate) -> Plan:
    return plan(request, match(request, CATALOG, {}), CATALOG)


class Past:
    """A log of evaluations, by a clock that the test sets."""

    def __init__(self) -> None:
        self.index = EvaluationIndex()
        self.count = 0

    def say(self, at_s: float, *facts: Fact) -> None:
        """Record facts at a time, in seconds."""
        for fact in facts:
            self.count += 1
            envelope = Envelope.around(fact, id=f"id{self.count}", cause="", time_ns=1)
            stored_ns = int(at_s * S_NS)
            fields = (subject_of(fact), self.count, envelope, fact, stored_ns)
            self.index.follow(Recorded(*fields))

    def begin(self, name: str, requested_by: str = "", **request: Any) -> Plan:
        """Have an evaluation planned and all of its runs started at 100 s."""
        asked = a_request(**request)
        made = planned(asked)
        by = {"requested_ns": 0, "requested_by": requested_by}
        self.say(0, EvaluationRequested(evaluation=name, request=asked, **by))
        self.say(1, EvaluationPlanned(evaluation=name, plan=made))
        for session in made.sessions:
            self.say(100, *(started(name, session.agent, run.run) for run in session.runs))
        return made

    def measure(self, name: str, took_s: float, requested_by: str = "", **request: Any) -> None:
        """Have an evaluation measured whose runs took so many seconds."""
        made = self.begin(name, requested_by, **request)
        for session in made.sessions:
            done = (completed(name, session.agent, run.run) for run in session.runs)
            self.say(100 + took_s, *done)
        self.say(10_000, EvaluationMeasured(evaluation=name, runs=()))

    def expected(self, asker: Asker = THE_USER, **request: Any) -> tuple[float, int] | None:
        """Return how many seconds a request would take, and how many runs say so."""
        expected = self.index.durations.expected(planned(a_request(**request)), asker)
        return None if expected is None else (round(expected.duration_s, 6), expected.runs)


def started(name: str, agent: str, run: str, attempt: int = 1) -> RunStarted:
    fields = {"session": "b1", "attempt": attempt, "agent": agent, "started_ns": 5}
    return RunStarted(evaluation=name, run=run, **fields)


def completed(name: str, agent: str, run: str, own_s: float = 0, attempt: int = 1) -> RunCompleted:
    origin = ClockOrigin(monotonic_ns=1, epoch_start_ns=1, monotonic_end_ns=1 + int(own_s * S_NS))
    report = {"tally": Tally(spans=1, queries=1), "origin": origin, "conditions": Conditions()}
    return RunCompleted(evaluation=name, run=run, agent=agent, attempt=attempt, **report)


@pytest.fixture
def past() -> Past:
    return Past()


def test_the_median_of_runs_alike_is_expected(past: Past) -> None:
    assert past.expected() is None
    for number, took_s in enumerate((20, 60, 30)):
        past.measure(f"e{number}", took_s)
    assert past.expected() == (30, 3)


@pytest.mark.parametrize(
    "request_fields",
    [
        {"agents": ["a2"]},
        {"scenarios": [{"name": "online", "parameters": {"queries": 500}}]},
        {"blocks": {"least": 9, "most": 9}},
        {"model": a_model(description="of the same name and version")},
        {"scenarios": ["online", "batched"]},
    ],
)
def test_nothing_is_expected_of_a_load_that_never_ran(
    past: Past, request_fields: dict[str, Any]
) -> None:
    past.measure("e1", 20, agents=["a1"])
    assert past.expected(**{"agents": ["a1"], **request_fields}) is None


def test_loads_add_up_and_agents_work_side_by_side(past: Past) -> None:
    past.measure("e1", 20, agents=["a1"])
    past.measure("e2", 50, agents=["a2"])
    assert past.expected(spread="all", agents=["a1", "a2"]) == (50, 2)
    past.measure("e3", 7, batch_sizes=[4], agents=["a1"])
    assert past.expected(batch_sizes=[1, 4], agents=["a1"]) == (27, 2)


def test_the_nearest_batch_size_counts_and_levels_scale(past: Past) -> None:
    past.measure("e1", 20, batch_sizes=[1])
    past.measure("e2", 80, batch_sizes=[16])
    assert past.expected(batch_sizes=[8]) == (80, 1)
    assert past.expected(trace_level="framework") == (40, 1)
    past.measure("e3", 33, trace_level="framework")
    assert past.expected(trace_level="framework") == (33, 2)


def test_a_repeated_attempt_counts_from_its_own_start(past: Past) -> None:
    (session,) = past.begin("e1").sessions
    run, agent = session.runs[0].run, session.agent
    past.say(400, started("e1", agent, run, attempt=2))
    past.say(425, completed("e1", agent, run, attempt=2))
    past.say(500, completed("e1", agent, run))  # late, of the first attempt
    past.say(900, EvaluationMeasured(evaluation="e1", runs=()))
    assert past.expected() == (25, 1)


def test_what_was_played_back_or_cancelled_or_moved_tells_nothing(past: Past) -> None:
    (session,) = past.begin("played").sessions
    past.say(101, completed("played", session.agent, session.runs[0].run, own_s=90))
    past.say(102, EvaluationMeasured(evaluation="played", runs=()))
    past.begin("ended", agents=["a1"])
    past.say(103, EvaluationCancelled(evaluation="ended", reason="enough"))
    (session,) = past.begin("moved", agents=["a1"]).sessions
    past.say(104, started("moved", "a2", session.runs[0].run, attempt=2))
    past.say(105, completed("moved", "a2", session.runs[0].run, attempt=2))
    past.say(106, EvaluationMeasured(evaluation="moved", runs=()))
    assert past.expected(agents=["a1"]) is None


def test_private_evaluations_tell_only_their_person(past: Past) -> None:
    past.measure("e1", 20, "ada", visibility="private")
    assert past.expected(Asker("ada", "requester")) == (20, 1)
    assert past.expected(Asker("bob", "requester")) is None


def test_an_estimate_that_fails_costs_no_fact(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(PastDurations, "take", fail)
    past.begin("e1")
    assert (past.index.open["e1"].state, past.index.unfolded) == ("running", [])


def test_the_newest_sixteen_of_a_load_are_remembered(past: Past) -> None:
    for number in range(40):
        past.measure(f"e{number}", number)
    assert past.expected() == (31.5, 16)
