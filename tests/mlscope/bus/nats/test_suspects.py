"""What a process has in hand: a suspect is alone there, and is noted for as long."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.nats.admin import Admin
from mlscope.bus.nats.suspects import MessagesInHand
from mlscope.bus.streams import SUSPECTS
from mlscope.testing import memory_bus
from schemas.evaluation import EvaluationCancelled
from tests.contracts.worlds import NatsWorld, OpenSettings, Shape

X, Y = ("spans", 1), ("queries", 2)
TWICE = "the service ended twice while it had only this message in hand"


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    """Lend a bus in memory: no message, only the bucket."""
    async with memory_bus.connect(memory_bus.MemoryServer(), "tester") as lent:
        yield lent


async def noted(bus: Bus) -> list[str]:
    """Return the suspects that are noted."""
    return [entry.key for entry in await bus.changes(SUSPECTS, after=0) if entry.value is not None]


async def test_only_what_others_had_before_is_a_suspect(bus: Bus) -> None:
    in_hand = MessagesInHand(bus)
    assert not in_hand.receive(X, 1)
    assert not in_hand.receive(X, 2)
    assert in_hand.receive(Y, 2)
    assert in_hand.receive(X, 4)
    await in_hand.settle(X, is_over=True)
    assert in_hand.receive(X, 5)


async def test_a_suspect_waits_for_what_is_in_hand_and_the_next_messages_wait_for_it(
    bus: Bus,
) -> None:
    in_hand, order = MessagesInHand(bus), list[str]()

    async def suspect() -> None:
        async with in_hand.handling_alone(X):
            order.append("suspect")
            in_hand.hold(X, 60)
            asyncio.get_running_loop().call_soon(lambda: order.append("handling"))
            asyncio.get_running_loop().call_later(
                0.05, lambda: asyncio.ensure_future(in_hand.settle(X, is_over=True))
            )

    await in_hand.take([Y], 60)
    waiting = asyncio.create_task(suspect())
    await asyncio.sleep(0.02)
    order.append("settled")
    await in_hand.settle(Y, is_over=True)
    await asyncio.sleep(0.01)
    assert await noted(bus) == ["spans.1"]
    await in_hand.take([Y], 60)
    order.append("next")
    await waiting
    assert order == ["settled", "suspect", "handling", "next"]
    assert await noted(bus) == []


async def test_what_its_handler_forgot_is_awaited_until_the_server_sends_it_again(bus: Bus) -> None:
    in_hand = MessagesInHand(bus)
    await in_hand.take([Y], 0.02)
    async with in_hand.handling_alone(X) as reason:
        assert reason == ""


class DyingInHand(MessagesInHand):
    """Those of a process that dies: it removes no note."""

    async def clear_suspect(self) -> None:
        """Be dead."""


async def dies_with(bus: Bus, place: tuple[str, int]) -> None:
    """Have a message in hand alone when the process dies."""
    async with DyingInHand(bus).handling_alone(place) as reason:
        assert reason == ""


async def test_what_was_alone_in_hand_at_two_deaths_is_to_be_buried_and_then_forgotten(
    bus: Bus,
) -> None:
    for _ in range(2):
        await dies_with(bus, X)
    async with MessagesInHand(bus).handling_alone(X) as reason:
        assert reason == TWICE
    assert await noted(bus) == []


async def test_what_one_death_may_be_innocent_of_is_handled_and_forgotten(bus: Bus) -> None:
    """A process may be killed from outside, whatever it has in hand."""
    for _ in range(3):
        await dies_with(bus, X)
        async with MessagesInHand(bus).handling_alone(X) as reason:
            assert reason == ""
        assert await noted(bus) == []


async def test_the_note_of_an_older_release_counts_for_one_death(bus: Bus) -> None:
    await bus.put(SUSPECTS, "spans.1", b"in hand")
    await dies_with(bus, X)
    async with MessagesInHand(bus).handling_alone(X) as reason:
        assert reason == TWICE


async def test_a_service_that_is_stopped_leaves_no_note(world: NatsWorld) -> None:
    """Stopping is not dying, also where the suspect is still in hand."""
    await world.make(Shape(ack_wait_s=0.1))
    async with world.connect() as bus:
        await bus.publish(EvaluationCancelled(evaluation="e1"), id="a")
        await anext(bus.deliveries("scheduler"))
    async with asyncio.timeout(60), world.connect() as bus:
        (suspect,) = await anext(bus.deliveries("scheduler"))
        assert suspect.tries > 1
        assert await bus.get(SUSPECTS, "scheduler.1") is not None
    async with world.connect() as bus:
        assert await bus.get(SUSPECTS, "scheduler.1") is None


async def test_without_its_bucket_a_suspect_is_handled_all_the_same(world: NatsWorld) -> None:
    async with world.connect(patience_s=0.2) as bus:
        admin = Admin(OpenSettings(world.server.url))
        await admin.open()
        await admin.delete_stream(f"KV_{SUSPECTS}")
        await admin.close()
        async with MessagesInHand(bus).handling_alone(X) as reason:
            assert reason == ""
