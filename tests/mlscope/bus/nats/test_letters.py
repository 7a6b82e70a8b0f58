"""Dead letters: their messages are handled again by the service that gave up, or dropped."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import pytest

from mlscope.bus.bus import Bus, Delivery
from mlscope.bus.errors import NoAnswer, NotRetried
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.letters import Letters, RetryOrder
from mlscope.bus.records import Recorded
from schemas.dead import LetterBuried
from schemas.subjects import facts_of
from tests.contracts.facts import a_fact
from tests.contracts.worlds import NatsWorld, OpenSettings

Handle = Callable[[Delivery], Awaitable[None]]


@asynccontextmanager
async def handling(bus: Bus, handle: Handle) -> AsyncIterator[None]:
    """Handle what the scheduler's durable delivers, meanwhile."""

    async def each() -> None:
        async with aclosing(bus.deliveries("scheduler")) as coming:
            async for deliveries in coming:
                for delivery in deliveries:
                    await handle(delivery)

    task = asyncio.create_task(each())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def settling(world: NatsWorld) -> AsyncIterator[Letters]:
    """Lend the letters of an operator's connection."""
    connection = Connection(OpenSettings(world.server.url), "operator", patience_s=5.0)
    await connection.open(10.0)
    try:
        yield Letters(connection)
    finally:
        await connection.close()


async def letters_of(bus: Bus, least: int = 0) -> list[tuple[Recorded, LetterBuried]]:
    """Return the dead letters, once there are at least so many."""
    async with asyncio.timeout(30):
        while True:
            read = await bus.read(facts_of(LetterBuried))
            if len(read) >= least:
                return [(one, one.fact) for one in read if isinstance(one.fact, LetterBuried)]
            await asyncio.sleep(0.02)


class Fails:
    """Handles nothing until it `works`."""

    def __init__(self) -> None:
        self.works = False
        self.handled: list[tuple[str, int]] = []

    async def __call__(self, delivery: Delivery) -> None:
        """Bury a fact, or note its id and tries and acknowledge it."""
        if not self.works:
            await delivery.bury("no table for it")
            return
        await delivery.in_progress()
        self.handled.append((delivery.recorded.envelope.id, delivery.tries))
        if delivery.tries == 1 and delivery.recorded.envelope.id == "twice":
            await delivery.retry(0.05)
        else:
            await delivery.ack()


@pytest.mark.parametrize(("fact_id", "tries"), [("once", [1]), ("twice", [1, 2])])
async def test_a_message_is_handled_again_under_its_id(
    world: NatsWorld, fact_id: str, tries: list[int]
) -> None:
    fails = Fails()
    async with world.connect("scheduler") as bus, handling(bus, fails), settling(world) as letters:
        await bus.publish(a_fact(), id=fact_id)
        ((recorded, letter),) = await letters_of(bus, 1)
        fails.works = True
        await letters.retry(recorded.sequence, letter)
        assert fails.handled == [(fact_id, number) for number in tries]
        assert await letters_of(bus) == []


async def test_a_message_that_fails_again_is_a_letter_again_and_counted(world: NatsWorld) -> None:
    async with world.connect("scheduler") as bus, handling(bus, Fails()), settling(world) as ours:
        sequence = await bus.publish(a_fact(), id="a")
        for retries in range(3):
            ((recorded, letter),) = await letters_of(bus, 1)
            assert (letter.retries, letter.sequence) == (retries, sequence)
            with pytest.raises(NotRetried, match="scheduler gave it up again: no table for it"):
                await ours.retry(recorded.sequence, letter)
        ((_, letter),) = await letters_of(bus)
        assert letter.retries == 3


async def test_a_letter_stays_while_its_service_is_away(world: NatsWorld) -> None:
    async with world.connect("scheduler") as bus, settling(world) as letters:
        async with handling(bus, Fails()):
            await bus.publish(a_fact(), id="a")
            ((recorded, letter),) = await letters_of(bus, 1)
        with pytest.raises(NoAnswer):
            await letters.retry(recorded.sequence, letter)
        assert len(await letters_of(bus)) == 1
        await letters.drop(recorded.sequence)
        assert await letters_of(bus) == []


@pytest.mark.parametrize(
    ("stream", "sequence", "reason"),
    [
        ("EVALUATIONS", 4711, "no longer has message 4711"),
        ("", 0, "a request is not kept"),
        ("CATALOG", 1, "scheduler folds it when it starts"),
        ("EVALUATIONS", 0, "whole numbers above 0"),
    ],
)
async def test_what_cannot_be_handled_again_says_why(
    world: NatsWorld, stream: str, sequence: int, reason: str
) -> None:
    letter = LetterBuried(
        service="scheduler", reason="r", subject="s", stream=stream, sequence=sequence
    )
    async with world.connect("scheduler") as bus, handling(bus, Fails()), settling(world) as ours:
        number = await bus.publish(letter, id="l")
        await asyncio.sleep(0.2)
        with pytest.raises(NotRetried, match=reason):
            await ours.retry(number, letter)
        assert len(await letters_of(bus)) == 1


async def test_a_service_is_given_no_message_of_another_durable(world: NatsWorld) -> None:
    letter = LetterBuried(
        service="collector", reason="r", subject="s", stream="EVALUATIONS", sequence=1
    )
    async with world.connect("collector") as bus, settling(world) as letters:
        assert await bus.publish(a_fact(), id="a") == 1
        waiting = asyncio.create_task(anext(bus.deliveries("recorder")))
        await asyncio.sleep(0.2)
        with pytest.raises(NotRetried, match="is not for the durable recorder"):
            await letters.retry(1, letter)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"7",
        b'{"sequence": 1}',
        b'{"sequence": true, "tries": 1, "retries": 1}',
        b'{"sequence": 1.5, "tries": 1, "retries": 1}',
    ],
)
def test_an_order_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        RetryOrder.decode(body)


def test_an_order_is_read_as_it_was_written() -> None:
    order = RetryOrder(17, tries=2, retries=3)
    assert RetryOrder.decode(order.encode()) == order
