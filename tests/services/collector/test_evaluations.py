"""What the log says of evaluations: starts are remembered, within a bound; the rest is read."""

from collections.abc import AsyncIterator

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.records import Recorded
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
    monkeypatch.setattr(evaluations, "_READ_ON", 0)
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


async def test_decisions_are_read_on_from_the_last_one(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each end of a run asks for them: all of them each time would be quadratic."""
    monkeypatch.setattr(evaluations, "_READ_ON", 1)
    read, facts_read = bus.read, []

    async def counted(subject: str, *, after: int = 0, at_most: int = 0) -> list[Recorded]:
        recorded = await read(subject, after=after, at_most=at_most)
        facts_read.append(len(recorded))
        return recorded

    monkeypatch.setattr(bus, "read", counted)
    known = Evaluations(bus)
    for fact in (a_request(), a_plan(), a_request().model_copy(update={"evaluation": "e2"})):
        await bus.publish(fact, id=f"{fact.schema_name()} {fact.evaluation}")
        await known.decisions(fact.evaluation)
    assert (await known.decisions("e1")).plan == a_plan().plan
    assert (await known.decisions("e1")).requested_ns == REQUESTED_NS
    assert facts_read == [1, 1, 1, 2, 0], "the longest unused one is read whole again"


async def test_the_plan_is_read_anew(bus: Bus) -> None:
    known = Evaluations(bus)
    await bus.publish(a_request(), id="r")
    assert (await known.decisions("e1")).plan is None
    await bus.publish(a_plan(), id="p")
    assert (await known.decisions("e1")).plan == a_plan().plan
