"""What the log says of evaluations: starts are remembered, within a bound; the rest is read."""

from collections.abc import AsyncIterator

import pytest

from mlscope.bus.bus import Bus
from mlscope.testing.memory_bus import MemoryServer, connect
from services.collector import evaluations
from services.collector.errors import UnknownEvaluation
from services.collector.evaluations import Evaluations
from tests.services.collector.builders import REQUESTED_NS, a_plan, a_request


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with connect(MemoryServer(), "collector") as bus:
        yield bus


async def test_a_start_is_known_once_it_is_said(bus: Bus) -> None:
    known = Evaluations(bus)
    with pytest.raises(UnknownEvaluation, match="e1"):
        await known.start_of("e1")
    await bus.publish(a_request(), id="r")
    assert await known.start_of("e1") == REQUESTED_NS


async def test_a_start_is_read_once(bus: Bus) -> None:
    known = Evaluations(bus)
    await bus.publish(a_request(), id="r")
    await known.start_of("e1")
    await bus.purge("mlscope.v1.evaluation.e1.>")
    assert await known.start_of("e1") == REQUESTED_NS
    with pytest.raises(UnknownEvaluation):
        await Evaluations(bus).start_of("e1")


async def test_those_not_asked_for_longest_are_forgotten(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluations, "_REMEMBERED", 2)
    known = Evaluations(bus)
    for name in ("e1", "e2", "e3"):
        fact = a_request().model_copy(update={"evaluation": name})
        await bus.publish(fact, id=name)
    for name in ("e1", "e2", "e1", "e3"):
        await known.start_of(name)
    await bus.purge("mlscope.v1.evaluation.>")
    assert await known.start_of("e1") == REQUESTED_NS
    with pytest.raises(UnknownEvaluation, match="e2"):
        await known.start_of("e2")


async def test_the_plan_is_read_anew(bus: Bus) -> None:
    known = Evaluations(bus)
    await bus.publish(a_request(), id="r")
    assert (await known.decisions("e1")).plan is None
    await bus.publish(a_plan(), id="p")
    assert (await known.decisions("e1")).plan == a_plan().plan
