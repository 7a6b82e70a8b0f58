"""Large payloads by name and checksum."""

import hashlib
import random
from contextlib import aclosing

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import NoSuchPayload, PayloadMismatch
from schemas.batch import TraceCaptured
from schemas.codec import decode_envelope, unpack
from schemas.dead import LetterBuried
from schemas.subjects import facts_of
from tests.contracts.facts import a_batch


@pytest.mark.parametrize("size_bytes", [0, 1, 131_072, 5_000_000])
async def test_a_payload_comes_back_whole(bus: Bus, size_bytes: int) -> None:
    body = random.Random(size_bytes).randbytes(size_bytes)
    sha256 = await bus.put_object("plan.bin", body)
    assert sha256 == hashlib.sha256(body).hexdigest()
    assert await bus.get_object("plan.bin", sha256) == body


async def test_a_payload_nobody_put(bus: Bus) -> None:
    with pytest.raises(NoSuchPayload) as raised:
        await bus.get_object("plan.bin", "0" * 64)
    assert raised.value.name == "plan.bin"


async def test_a_payload_that_is_another_is_refused(bus: Bus) -> None:
    older = await bus.put_object("plan.bin", b"one")
    newer = await bus.put_object("plan.bin", b"two")
    assert await bus.get_object("plan.bin", newer) == b"two"
    with pytest.raises(PayloadMismatch) as raised:
        await bus.get_object("plan.bin", older)
    assert (raised.value.expected, raised.value.found) == (older, newer)


async def test_a_large_fact_travels_as_an_object(bus: Bus) -> None:
    fact = a_batch(7, 3_000_000)
    hearing = await bus.hear("mlscope.v1.trace.>").ready()
    await bus.publish(fact, id="large")
    _, body = await anext(hearing)
    await hearing.aclose()
    envelope = decode_envelope(body)
    assert len(body) < 1000
    assert (envelope.payload, envelope.data) == ("trace.captured-large", {})
    held = await bus.get_object(envelope.payload, envelope.payload_sha256)
    assert unpack(held)["span"] == bytes(3_000_000)
    (read,) = await bus.read(facts_of(TraceCaptured))
    async with aclosing(bus.deliveries("spans")) as coming:
        (delivery,) = await anext(coming)
    assert read.fact == delivery.recorded.fact == fact


async def test_a_large_fact_whose_object_changed_is_buried(bus: Bus) -> None:
    await bus.publish(a_batch(0, 600_000), id="a")
    await bus.publish(a_batch(1, 600_000), id="b")
    await bus.put_object("trace.captured-a", b"\x80")
    async with aclosing(bus.deliveries("spans")) as coming:
        (delivery,) = await anext(coming)
    assert delivery.recorded.envelope.id == "b"
    (dead,) = await bus.read(facts_of(LetterBuried))
    assert isinstance(dead.fact, LetterBuried)
    assert "sha256" in dead.fact.reason
