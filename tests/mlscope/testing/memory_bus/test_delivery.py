"""What a delivery says takes effect: done, again, dead."""

import pytest

from mlscope.bus.bus import Delivery
from mlscope.bus.errors import StreamFull
from mlscope.bus.streams import DURABLES, durable_named
from mlscope.testing.memory_bus import MemoryBus, MemoryServer
from schemas.dead import LetterBuried
from schemas.subjects import facts_of
from tests.contracts.facts import a_fact


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer(clock=lambda: 0.0)


async def delivered(bus: MemoryBus) -> Delivery:
    """Return the delivery of one fact."""
    await bus.publish(a_fact(), id="a")
    (delivery,) = await anext(bus.deliveries("scheduler"))
    return delivery


async def letters(bus: MemoryBus) -> list[LetterBuried]:
    """Return the dead letters."""
    found = [recorded.fact for recorded in await bus.read(facts_of(LetterBuried))]
    return [each for each in found if isinstance(each, LetterBuried)]


async def test_done_is_never_again(server: MemoryServer) -> None:
    bus = MemoryBus(server, "scheduler")
    await (await delivered(bus)).ack()
    assert server.durables["scheduler"].next_due_s() is None
    assert await bus.acknowledged("scheduler") == 1


@pytest.mark.parametrize(("delay_s", "due_s"), [(None, 0.2), (7.0, 7.0)])
async def test_again_is_after_the_delay(
    server: MemoryServer, delay_s: float | None, due_s: float
) -> None:
    delivery = await delivered(MemoryBus(server, "scheduler"))
    await delivery.retry(delay_s)
    assert server.durables["scheduler"].next_due_s() == due_s


async def test_working_begins_the_ack_wait_anew(server: MemoryServer) -> None:
    delivery = await delivered(MemoryBus(server, "scheduler"))
    await delivery.retry(0.1)
    await delivery.in_progress()
    assert server.durables["scheduler"].next_due_s() == durable_named("scheduler").ack_wait_s


async def test_dead_is_a_letter_that_says_where_from(server: MemoryServer) -> None:
    bus = MemoryBus(server, "scheduler")
    await (await delivered(bus)).bury("no use")
    (letter,) = await letters(bus)
    assert (letter.reason, letter.stream, letter.sequence) == ("no use", "EVALUATIONS", 1)
    assert server.durables["scheduler"].next_due_s() is None


async def test_past_the_last_try_it_is_dead() -> None:
    clock = [0.0]
    server = MemoryServer(clock=lambda: clock[0], durables=DURABLES)
    bus = MemoryBus(server, "scheduler")
    await bus.publish(a_fact(), id="a")
    coming = bus.deliveries("scheduler")
    for _ in range(durable_named("scheduler").max_deliver):
        (delivery,) = await anext(coming)
        await delivery.retry(0.0)
    (letter,) = await letters(bus)
    assert letter.reason == "given up after 8 tries"


async def test_without_room_for_its_letter_it_comes_again(server: MemoryServer) -> None:
    delivery = await delivered(MemoryBus(server, "scheduler"))
    server.logs["DEAD"].append = full  # type: ignore[method-assign]
    with pytest.raises(StreamFull):
        await delivery.bury("no use")
    assert server.durables["scheduler"].next_due_s() is not None


def full(subject: str, *_: object, **__: object) -> int:
    """Refuse."""
    raise StreamFull(subject)
