"""A delivery is kept while there is work, and no longer."""

import asyncio
from types import SimpleNamespace

import pytest

from mlscope.bus.errors import Unreachable
from mlscope.bus.nats.connection import Msg
from mlscope.bus.nats.deliveries import DeliveryMetadata, NatsDelivery, Puller
from mlscope.bus.nats.suspects import MessagesInHand
from mlscope.bus.progress import reporting_progress
from mlscope.bus.streams import durable_named
from mlscope.testing.memory_bus import MemoryServer, connect
from tests.contracts.facts import a_fact


class Counted:
    """Counts how often more time was asked for a real delivery."""

    def __init__(self) -> None:
        self.count = 0

    async def in_progress(self) -> None:
        """Count."""
        self.count += 1


async def test_more_time_is_asked_again_and_again_until_the_end() -> None:
    delivery = Counted()
    async with reporting_progress(delivery, 0.001):  # type: ignore[arg-type]
        while delivery.count < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    seen = delivery.count
    await asyncio.sleep(0.01)
    assert delivery.count == seen


class Away:
    """A connection to a server that is away for the first two words said to it."""

    def __init__(self) -> None:
        self.said: list[bytes] = []

    async def send(self, _: str, word: bytes) -> None:
        """Note the word; fail at first."""
        self.said.append(word)
        if len(self.said) < 3:
            raise Unreachable("away")


async def test_a_server_that_was_away_is_asked_again() -> None:
    connection, message = Away(), Msg(None, reply="ack")  # type: ignore[arg-type]
    in_hand = MessagesInHand(None)  # type: ignore[arg-type]
    puller = Puller(connection, durable_named("scheduler"), in_hand, None, None)  # type: ignore[arg-type]
    recorded = SimpleNamespace(subject="mlscope.v1.evaluation.e1.cancelled")
    delivery = NatsDelivery(puller, message, DeliveryMetadata("EVENTS", 1, 1), recorded)  # type: ignore[arg-type]
    await delivery.in_progress()
    async with asyncio.timeout(60), reporting_progress(delivery, 0.001):
        while len(connection.said) < 5:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert set(connection.said) == {b"+WPI"}


async def test_nothing_is_left_running_when_the_work_fails() -> None:
    async def fail() -> None:
        async with reporting_progress(Counted(), 10.0):  # type: ignore[arg-type]
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_kept_delivery_does_not_come_again() -> None:
    now_s = 0.0
    server = MemoryServer(clock=lambda: now_s)
    async with connect(server, "scheduler") as bus:
        await bus.publish(a_fact(), id="a")
        coming = bus.deliveries("scheduler")
        (delivery,) = await anext(coming)
        again = asyncio.ensure_future(anext(coming))
        async with reporting_progress(delivery, 0.001):
            for _ in range(5):
                now_s += 20.0
                await asyncio.sleep(0.01)
                server.wake()
                await asyncio.sleep(0)
                assert not again.done()
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)
