"""Durables: every fact until acknowledged, later again, in the end buried."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from mlscope.bus.bus import Bus, Delivery
from mlscope.bus.progress import reporting_progress
from mlscope.bus.records import Backlog
from schemas.dead import LetterBuried
from schemas.subjects import facts_of
from tests.contracts.facts import E, a_fact
from tests.contracts.worlds import Shape, World


async def _next(bus: Bus, batch: int = 1) -> Sequence[Delivery]:
    """Return the next deliveries of the scheduler's durable."""
    async with asyncio.timeout(60), aclosing(bus.deliveries("scheduler", batch=batch)) as coming:
        return await anext(coming)


async def _none_comes(bus: Bus, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await _next(bus)
    except TimeoutError:
        return True
    return False


async def _dead(bus: Bus) -> list[LetterBuried]:
    """Return the dead letters."""
    facts = [recorded.fact for recorded in await bus.read(facts_of(LetterBuried))]
    return [fact for fact in facts if isinstance(fact, LetterBuried)]


async def test_a_fact_is_delivered_until_acknowledged(bus: Bus) -> None:
    sequence = await bus.publish(a_fact("why"), id="a")
    (delivery,) = await _next(bus)
    assert delivery.recorded.fact == a_fact("why")
    assert (delivery.recorded.sequence, delivery.tries) == (sequence, 1)
    await delivery.ack()
    assert await _none_comes(bus, 0.3)


async def test_what_is_acknowledged_ends_before_the_first_that_is_not(bus: Bus) -> None:
    assert await bus.acknowledged("scheduler") == 0
    sequences = [await bus.publish(a_fact(), id=str(n)) for n in range(3)]
    first, second, third = await _next(bus, 3)
    await third.ack()
    await first.ack()
    await _until_acknowledged(bus, sequences[0])
    await second.ack()
    await _until_acknowledged(bus, sequences[2])


async def test_what_is_still_to_do_and_came_again_is_counted(bus: Bus) -> None:
    for number in range(3):
        await bus.publish(a_fact(), id=str(number))
    (first,) = await _next(bus)
    assert await bus.backlog("scheduler") == Backlog(waiting=2, unsettled=1, redelivered=0)
    await first.retry(0.0)
    async with asyncio.timeout(60):
        while (await _next(bus))[0].tries == 1:
            pass
    traffic = bus.traffic
    assert (traffic.published, traffic.redelivered, traffic.buried) == (3, 1, 0)
    assert traffic.delivered >= 2
    assert (await bus.backlog("scheduler")).redelivered == 1


async def _until_acknowledged(bus: Bus, sequence: int) -> None:
    async with asyncio.timeout(60):
        while await bus.acknowledged("scheduler") != sequence:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_waiting_service_is_served_at_once(bus: Bus) -> None:
    waiting = asyncio.create_task(_next(bus))
    await asyncio.sleep(0.2)
    await bus.publish(a_fact(), id="a")
    (delivery,) = await waiting
    assert delivery.recorded.envelope.id == "a"


async def test_a_batch_holds_what_is_there(bus: Bus) -> None:
    for n in range(7):
        await bus.publish(a_fact(), id=str(n))
    assert [d.recorded.envelope.id for d in await _next(bus, 5)] == list("01234")
    assert [d.recorded.envelope.id for d in await _next(bus, 5)] == list("56")


async def test_instances_share_the_work(world: World) -> None:
    async with world.connect("one") as one, world.connect("two") as two:
        for n in range(20):
            await one.publish(a_fact(), id=str(n))
        seen: list[str] = []
        for bus in [one, two] * 10:
            (delivery,) = await _next(bus)
            seen.append(delivery.recorded.envelope.id)
            await delivery.ack()
        assert sorted(seen, key=int) == [str(n) for n in range(20)]


async def test_a_retry_comes_again_counted(bus: Bus) -> None:
    await bus.publish(a_fact(), id="a")
    for tries in (1, 2, 3):
        (delivery,) = await _next(bus)
        assert delivery.tries == tries
        await delivery.retry(0.01)
    assert not await _none_comes(bus, 5.0)


async def test_a_retry_waits_for_its_backoff(bus: Bus) -> None:
    await bus.publish(a_fact(), id="a")
    (delivery,) = await _next(bus)
    begun = asyncio.get_running_loop().time()
    await delivery.retry()
    await _next(bus)
    assert asyncio.get_running_loop().time() - begun >= 0.19


async def test_others_pass_a_fact_that_is_retried(bus: Bus) -> None:
    await bus.publish(a_fact(), id="a")
    (first,) = await _next(bus)
    await first.retry(0.3)
    await bus.publish(a_fact(), id="b")
    order = []
    for _ in range(2):
        (delivery,) = await _next(bus)
        order.append(delivery.recorded.envelope.id)
        await delivery.ack()
    assert order == ["b", "a"]


async def test_past_the_last_try_a_fact_is_buried(bus: Bus) -> None:
    await bus.publish(a_fact("why"), id="a")
    for _ in range(8):
        (delivery,) = await _next(bus)
        await delivery.retry(0.0)
    assert await _none_comes(bus, 0.3)
    (letter,) = await _dead(bus)
    assert (letter.service, letter.reason) == ("tester", "given up after 8 tries")
    assert (letter.stream, letter.deliveries) == ("EVALUATIONS", 8)
    assert b"why" in letter.body


async def test_what_is_never_acknowledged_is_buried_as_well(world: World) -> None:
    await world.make(Shape(ack_wait_s=0.1))
    async with world.connect() as bus:
        await bus.publish(a_fact(), id="a")
        for _ in range(8):
            await _next(bus)
        assert await _none_comes(bus, 0.5)
        (letter,) = await _dead(bus)
        assert letter.reason == "given up after 8 tries"


async def test_a_buried_fact_keeps_its_reason(bus: Bus) -> None:
    sequence = await bus.publish(a_fact(), id="a")
    (delivery,) = await _next(bus)
    await delivery.bury("names no model")
    assert await _none_comes(bus, 0.3)
    (letter,) = await _dead(bus)
    assert (letter.reason, letter.sequence) == ("names no model", sequence)
    assert letter.subject == f"mlscope.v1.evaluation.{E}.cancelled"


@pytest.mark.parametrize(
    ("poison", "reason"),
    [
        (b"{no json", "message: "),
        (b"\xc1\xff\x00", "message: "),
        (b"", "message: "),
        (b"[1, 2]", "message: "),
        (b'{"schema": "x.y", "id": "1", "time_ns": 1, "data": {}}', "unknown message 'x.y'"),
        (b'{"schema": "evaluation.cancelled", "id": "1", "data": {}}', "time_ns: "),
        (
            b'{"schema": "evaluation.cancelled", "id": "1", "time_ns": 1, "data": {}}',
            "evaluation: ",
        ),
        (
            b'{"schema": "run.ready", "version": 2, "id": "1", "time_ns": 1, "data": {}}',
            "unknown message 'run.ready' version 2",
        ),
    ],
)
async def test_poison_is_buried_and_the_stream_goes_on(
    bus: Bus, poison: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    await bus.publish_live(f"mlscope.v1.evaluation.{E}.poison", poison)
    await bus.publish(a_fact(), id="a")
    (delivery,) = await _next(bus)
    assert delivery.recorded.envelope.id == "a"
    (letter,) = await _dead(bus)
    assert letter.reason.startswith(reason)
    assert letter.body == poison
    (line,) = [each for each in caplog.records if each.getMessage().startswith("buried")]
    assert vars(line)["evaluation"] == E


async def test_what_a_lost_instance_held_comes_to_another(world: World) -> None:
    await world.make(Shape(ack_wait_s=0.3))
    async with world.connect("one") as one, world.connect("two") as two:
        await one.publish(a_fact(), id="a")
        await _next(one)
        (delivery,) = await _next(two)
        assert (delivery.recorded.envelope.id, delivery.tries) == ("a", 2)


async def test_keeping_holds_a_delivery_through_long_work(world: World) -> None:
    await world.make(Shape(ack_wait_s=0.4))
    async with world.connect("one") as one, world.connect("two") as two:
        await one.publish(a_fact(), id="a")
        (delivery,) = await _next(one)
        async with reporting_progress(delivery, 0.1):
            assert await _none_comes(two, 1.2)
        await delivery.ack()
        assert await _none_comes(two, 0.6)


async def test_giving_up_waiting_loses_nothing(world: World) -> None:
    async with world.connect("one") as one, world.connect("two") as two:
        assert await _none_comes(one, 0.3)
        # A round trip: until the server heard that `one` gave up, it may still send it the fact.
        await one.read(facts_of(LetterBuried))
        await two.publish(a_fact(), id="a")
        (delivery,) = await _next(two)
        assert delivery.recorded.envelope.id == "a"


async def test_deliveries_outlive_the_server(world: World) -> None:
    async with world.connect() as bus:
        waiting = asyncio.create_task(_next(bus))
        await asyncio.sleep(0.1)
        await world.stop()
        await asyncio.sleep(0.2)
        await world.start()
        await bus.publish(a_fact(), id="a")
        (delivery,) = await waiting
        assert delivery.recorded.envelope.id == "a"


async def test_deliveries_end_with_the_bus(world: World) -> None:
    async with world.connect() as bus:
        waiting = asyncio.create_task(_next(bus))
        await asyncio.sleep(0.1)
    with pytest.raises(StopAsyncIteration):
        await waiting
