"""Durables over NATS: where a message says it comes from, and what cancelling leaves behind."""

import asyncio
from contextlib import aclosing

import pytest

from mlscope.bus.errors import NotProvisioned
from mlscope.bus.nats.admin import Admin
from mlscope.bus.nats.deliveries import DeliveryMetadata, metadata_of
from tests.contracts.facts import a_batch
from tests.contracts.worlds import NatsWorld, OpenSettings


@pytest.mark.parametrize(
    "reply",
    ["$JS.ACK.TRACES.spans.2.17.5.1795.0", "$JS.ACK.hub.ACC.TRACES.spans.2.17.5.1795.0.r"],
)
def test_a_place_is_read_with_and_without_a_domain(reply: str) -> None:
    assert metadata_of(reply) == DeliveryMetadata("TRACES", 17, 2, stored_ns=1795)


async def test_what_came_after_its_asker_left_is_there_for_the_next(world: NatsWorld) -> None:
    async with world.connect() as bus:
        coming = bus.deliveries("spans")
        waiting = asyncio.create_task(anext(coming))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await coming.aclose()
        await bus.publish(a_batch(0), id="a")
        async with asyncio.timeout(60), aclosing(bus.deliveries("spans")) as again:
            (delivery,) = await anext(again)
            await delivery.ack()
        assert delivery.recorded.envelope.id == "a"


async def test_a_durable_that_goes_while_it_is_waited_on_is_named(world: NatsWorld) -> None:
    admin = Admin(OpenSettings(world.server.url))
    await admin.open()
    async with world.connect(patience_s=0.3) as bus:
        waiting = asyncio.create_task(anext(bus.deliveries("spans")))
        await asyncio.sleep(0.1)
        await admin.delete_stream("TRACES")
        with pytest.raises(NotProvisioned, match="spans"):
            await waiting
    await admin.close()


async def test_so_many_at_a_time_and_in_order(world: NatsWorld) -> None:
    seen: list[list[int]] = []
    async with world.connect() as bus:
        for n in range(5):
            await bus.publish(a_batch(n), id=str(n))
        async with aclosing(bus.deliveries("spans", batch=2)) as coming:
            while sum(map(len, seen)) < 5:
                deliveries = await anext(coming)
                seen.append([delivery.recorded.sequence for delivery in deliveries])
    assert seen == [[1, 2], [3, 4], [5]]
