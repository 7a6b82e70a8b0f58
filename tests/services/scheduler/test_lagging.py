"""A broker of three answers from a copy that lags behind: what was just recorded is waited for."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand, Recorded
from mlscope.bus.wrapping import WrappedBus
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import encode_body, unpack
from schemas.evaluation import EvaluationRequested
from schemas.message import Fact
from schemas.request import Evaluate
from schemas.subjects import command_subject, decisions_of
from services.scheduler.decision_log import DecisionLog
from services.scheduler.evaluation.decide import decide_cancel
from services.scheduler.evaluation.index import EvaluationIndex
from services.scheduler.evaluation.state import EvaluationState
from services.scheduler.request_answers import RequestAnswers
from tests.services.scheduler.samples import a_catalog, a_request
from tests.services.scheduler.test_request_answers import Known

E = "e1"


class Lagging(WrappedBus):
    """A bus whose first reads after `lag` find the log as it was then."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._reads, self._end = 0, 0

    def lag(self, reads: int, end: int = 0) -> None:
        """Answer so many reads from a copy that ends at a sequence."""
        self._reads, self._end = reads, end

    async def read(
        self, filter_subject: str, *, after: int = 0, at_most: int = 0
    ) -> Sequence[Recorded]:
        """Read as the bus does, but what the copy lacks."""
        recorded = await self._bus.read(filter_subject, after=after, at_most=at_most)
        if not self._reads:
            return recorded
        self._reads -= 1
        return [each for each in recorded if each.sequence <= self._end]


@pytest.fixture
async def bus(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lagging]:
    monkeypatch.setattr("services.scheduler.decision_log._LAGS_S", (0.0,) * 4)
    async with connect(MemoryServer(), "scheduler") as lent:
        yield Lagging(lent)


async def evaluate(bus: Lagging, request: Evaluate) -> dict[str, Any]:
    """Return a scheduler's answer to a request."""
    index = EvaluationIndex(pages="http://here/")
    log = DecisionLog(cast("Bus", bus), index)
    answers = RequestAnswers(
        index, log, Known(a_catalog()), lambda _: None, max_bytes=1 << 20, budget_s=10
    )
    body = encode_body(request)
    command = ReceivedCommand(command_subject(Evaluate), body, wants_answer=True)
    return dict(unpack(await answers.answer(command)))


async def test_a_recorded_request_is_accepted_though_it_is_not_read_at_once(bus: Lagging) -> None:
    bus.lag(3)
    answer = await evaluate(bus, a_request())
    assert answer["accepted"], answer
    assert len(await bus.read(decisions_of(answer["evaluation"]))) == 1


async def test_a_request_that_is_never_read_is_not_called_another_of_its_key(bus: Lagging) -> None:
    bus.lag(100)
    answer = await evaluate(bus, a_request())
    assert (answer["accepted"], answer["error"]) == (False, "unavailable")
    assert "is recorded, but cannot be read yet" in answer["message"]


async def test_a_decision_that_another_made_is_waited_for_and_not_passed_over(
    bus: Lagging,
) -> None:
    log = DecisionLog(cast("Bus", bus), EvaluationIndex())
    asked = EvaluationRequested(evaluation=E, request=a_request(), requested_ns=1)
    end = await log.record(EvaluationState(), [asked])
    other = DecisionLog(cast("Bus", bus), EvaluationIndex())
    await other.settle(E, cancels)
    bus.lag(3, end)
    seen: list[str] = []

    async def also_cancels(state: EvaluationState) -> Sequence[Fact]:
        seen.append(state.state)
        return [] if state.is_ended else decide_cancel(state, "late")

    assert (await log.settle(E, also_cancels)).state == "cancelled"
    assert seen == ["requested", "cancelled"]
    (cancelled,) = [each.fact for each in (await bus.read(decisions_of(E)))[1:]]
    assert cancelled.model_dump()["reason"] == ""


async def cancels(state: EvaluationState) -> Sequence[Fact]:
    """Return the decision to cancel, unless it was made."""
    return [] if state.is_ended else decide_cancel(state, "")
