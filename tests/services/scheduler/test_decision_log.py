"""Decisions into the log: guarded, decided anew after a conflict, never twice."""

import time
from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.records import Recorded
from mlscope.bus.wrapping import WrappedBus
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.evaluation import EvaluationCancelled, EvaluationRequested, RunInterrupted
from schemas.message import Fact
from schemas.subjects import decisions_of
from services.scheduler.decision_log import DecisionLog, decision_id
from services.scheduler.errors import Undecided
from services.scheduler.evaluation.decide import decide, decide_cancel
from services.scheduler.evaluation.index import EvaluationIndex
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.placement.fleet import Fleet
from tests.services.scheduler.samples import a_catalog, a_request

E = "e1"


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
async def bus(server: MemoryServer) -> AsyncIterator[Bus]:
    async with connect(server, "scheduler") as lent:
        yield lent


async def requested(bus: Bus) -> DecisionLog:
    """Return a recorder of one evaluation, just requested."""
    recorder = DecisionLog(bus, EvaluationIndex())
    asked = EvaluationRequested(evaluation=E, request=a_request(), requested_ns=1)
    await recorder.record(EvaluationState(), [asked])
    return recorder


async def decides(state: EvaluationState) -> Sequence[Fact]:
    return decide(state, time.time_ns(), Fleet(a_catalog()))


async def names(bus: Bus) -> list[str]:
    return [each.fact.happened for each in await bus.read(decisions_of(E))]


async def test_an_evaluation_nobody_asked_for_is_empty(bus: Bus) -> None:
    assert await DecisionLog(bus, EvaluationIndex()).current("e9") == EvaluationState()


class CountedBus(WrappedBus):
    """A bus that counts the facts that were read."""

    facts_read = 0

    async def read(
        self, filter_subject: str, *, after: int = 0, at_most: int = 0
    ) -> list[Recorded]:
        """Read, and count the facts."""
        facts: list[Recorded] = await self._bus.read(filter_subject, after=after, at_most=at_most)
        self.facts_read += len(facts)
        return facts


async def test_facts_about_an_evaluation_nobody_requested_are_not_read(bus: Bus) -> None:
    for attempt in range(1, 5):
        await bus.publish(_interruption(evaluation="e9", attempt=attempt), id=f"junk-{attempt}")
    counted = CountedBus(bus)
    log = DecisionLog(cast("Bus", counted), EvaluationIndex())
    assert (await log.settle("e9", decides)).is_known is False
    assert counted.facts_read == 0


async def test_facts_about_a_cancelled_evaluation_are_read_once(bus: Bus) -> None:
    recorder = await requested(bus)
    await recorder.settle(E, _cancels)
    counted = CountedBus(bus)
    log = DecisionLog(cast("Bus", counted), EvaluationIndex())
    for attempt in range(1, 51):
        await bus.publish(_interruption(evaluation=E, attempt=attempt), id=f"junk-{attempt}")
        assert (await log.settle(E, _cancels)).state == "cancelled"
    # the request, when it is asked for and in the story, and its cancellation
    assert counted.facts_read == 3 + 50


async def test_what_follows_is_recorded_until_nothing_does(bus: Bus) -> None:
    recorder = await requested(bus)
    state = await recorder.settle(E, decides)
    assert (state.state, await names(bus)) == ("running", ["requested", "planned", "started"])
    causes = [each.envelope.cause for each in await bus.read(decisions_of(E))]
    ids = [each.envelope.id for each in await bus.read(decisions_of(E))]
    assert causes == ["", ids[0], ids[1]]


async def test_a_decision_made_meanwhile_is_read_and_decided_upon_anew(bus: Bus) -> None:
    recorder, other = await requested(bus), DecisionLog(bus, EvaluationIndex())
    seen: list[str] = []

    async def late(state: EvaluationState) -> Sequence[Fact]:
        seen.append(state.state)
        if len(seen) == 1:
            await other.settle(E, decides)
        return [] if state.is_ended else decide_cancel(state, "late")

    state = await recorder.settle(E, late)
    assert seen == ["requested", "running", "cancelled"]
    assert state.state == "cancelled"
    assert await names(bus) == ["requested", "planned", "started", "interrupted", "cancelled"]


async def test_of_facts_decided_together_none_follows_a_conflict(bus: Bus) -> None:
    recorder, other = await requested(bus), DecisionLog(bus, EvaluationIndex())
    state = await recorder.settle(E, decides)
    await other.settle(E, decides)
    stale = await recorder.current(E)
    await other.settle(E, _cancels)
    facts = decide_cancel(stale, "again")
    assert len(facts) == 2
    found = await recorder.record(stale, facts)
    assert found == (await bus.read(decisions_of(E)))[-1].sequence
    assert (await names(bus)).count("cancelled") == 1
    assert state.decided < found


async def _cancels(state: EvaluationState) -> Sequence[Fact]:
    return [] if state.is_ended else decide_cancel(state, "")


async def test_a_decision_nobody_here_can_read_is_passed_over(
    server: MemoryServer, bus: Bus
) -> None:
    recorder = await requested(bus)
    server.store(f"mlscope.v1.evaluation.{E}.paused", b"newer", id="", expected=None)
    turns = 0

    async def counted(state: EvaluationState) -> Sequence[Fact]:
        nonlocal turns
        turns += 1
        return await _cancels(state)

    assert (await recorder.settle(E, counted)).state == "cancelled"
    assert turns == 3, "refused once by the guard, taken, nothing left to decide"
    assert (recorder.unread(E), recorder.unread("e2")) == (1, 0), "and counted"


async def test_who_is_always_late_stays_undecided(server: MemoryServer, bus: Bus) -> None:
    recorder = await requested(bus)

    async def outrun(state: EvaluationState) -> Sequence[Fact]:
        server.store(f"mlscope.v1.evaluation.{E}.paused", b"newer", id="", expected=None)
        return decide_cancel(state, "")

    with pytest.raises(Undecided):
        await recorder.settle(E, outrun)
    assert await names(bus) == ["requested"]


async def test_an_ended_evaluation_is_read_whole_and_not_kept_open(bus: Bus) -> None:
    await (await requested(bus)).settle(E, _cancels)
    board = EvaluationIndex()
    assert (await DecisionLog(bus, board).current(E)).state == "cancelled"
    assert board.open == {}


async def test_reading_an_ended_evaluation_again_is_not_folded_twice(bus: Bus) -> None:
    board = EvaluationIndex(max_ended=1)
    recorder = DecisionLog(bus, board)
    for name in (E, "e2"):
        asked = EvaluationRequested(evaluation=name, request=a_request(), requested_ns=1)
        await recorder.record(EvaluationState(), [asked])
        await recorder.settle(name, _cancels)
    assert list(board.ended) == ["e2"]
    before = board.digest()
    assert (await recorder.current(E)).state == "cancelled"
    assert (board.digest(), list(board.ended)) == (before, ["e2"])


def _interruption(**changes: object) -> RunInterrupted:
    told = {"evaluation": E, "run": "r", "attempt": 1, "agent": "a", "cause": "lost"}
    return RunInterrupted.model_validate(told | changes)


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        ({"cause": "seen otherwise"}, True),
        ({"final": True}, False),
        ({"attempt": 2}, False),
        ({"run": "s"}, False),
        ({"evaluation": "e2"}, False),
    ],
)
def test_every_scheduler_gives_a_decision_the_same_id(
    changes: dict[str, object], is_same: bool
) -> None:
    same = decision_id(_interruption()) == decision_id(_interruption(**changes))
    assert same is is_same
    assert decision_id(_interruption()) != decision_id(EvaluationCancelled(evaluation=E))
