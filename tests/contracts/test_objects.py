"""Large payloads by name and checksum: kept as long as what refers to them, bounded, never lost."""

import asyncio
import hashlib
import random
from contextlib import aclosing

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.envelopes import encode_envelope, in_envelope
from mlscope.bus.errors import Conflict, NoSuchPayload, PayloadMismatch, PayloadsFull
from mlscope.bus.window import PublishWindow
from schemas.batch import TraceCaptured
from schemas.dead import LetterBuried
from schemas.encoding.codec import decode_envelope, encode, unpack
from schemas.message import Envelope
from schemas.subjects import attempt_batches, decisions_of, facts_of, subject_of
from tests.contracts.facts import E, a_batch, a_fact
from tests.contracts.worlds import Shape, World

BATCH = subject_of(a_batch(0))
DECISION = subject_of(a_fact())
SUBJECTS = pytest.mark.parametrize("subject", [BATCH, DECISION], ids=["batch", "decision"])
BATCHES = attempt_batches("trace", E, "r1")
LARGE_BYTES = 600_000


@SUBJECTS
@pytest.mark.parametrize("size_bytes", [0, 1, 131_072, 5_000_000, 12_000_000])
async def test_a_payload_comes_back_whole(bus: Bus, subject: str, size_bytes: int) -> None:
    body = random.Random(size_bytes).randbytes(size_bytes)
    sha256 = await bus.put_object(subject, "plan.bin", body)
    assert sha256 == hashlib.sha256(body).hexdigest()
    assert await bus.get_object(subject, "plan.bin", sha256) == body


@SUBJECTS
async def test_a_payload_nobody_put(bus: Bus, subject: str) -> None:
    with pytest.raises(NoSuchPayload) as raised:
        await bus.get_object(subject, "plan.bin", "0" * 64)
    assert raised.value.name == "plan.bin"


@SUBJECTS
async def test_a_name_stands_for_one_payload(bus: Bus, subject: str) -> None:
    first = await bus.put_object(subject, "plan.bin", b"one")
    assert await bus.put_object(subject, "plan.bin", b"one") == first
    with pytest.raises(Conflict):
        await bus.put_object(subject, "plan.bin", b"two")
    assert await bus.get_object(subject, "plan.bin", first) == b"one"


async def test_a_name_stands_for_one_payload_of_each_agent(bus: Bus) -> None:
    elsewhere = subject_of(a_batch(0).model_copy(update={"agent": "a2"}))
    bodies = {BATCH: b"one", elsewhere: b"two"}
    digests = {
        subject: await bus.put_object(subject, "rows", body) for subject, body in bodies.items()
    }
    for subject, body in bodies.items():
        assert await bus.get_object(subject, "rows", digests[subject]) == body


async def test_a_payload_that_is_another_is_refused(bus: Bus) -> None:
    found = await bus.put_object(DECISION, "plan.bin", b"one")
    with pytest.raises(PayloadMismatch) as raised:
        await bus.get_object(DECISION, "plan.bin", "0" * 64)
    assert (raised.value.expected, raised.value.actual) == ("0" * 64, found)


async def referred(bus: Bus, filter_subject: str) -> list[Envelope]:
    """Return the envelopes on a filter."""
    return [recorded.envelope for recorded in await bus.read(filter_subject)]


async def fetched(bus: Bus, subject: str, envelope: Envelope) -> bytes:
    """Return the payload an envelope refers to."""
    return await bus.get_object(subject, envelope.payload, envelope.payload_sha256)


async def test_a_large_fact_travels_as_an_object(bus: Bus) -> None:
    fact = a_batch(7, 3_000_000)
    hearing = await bus.subscribe("mlscope.v1.trace.>").ready()
    await bus.publish(fact, id="large")
    _, body = await anext(hearing)
    await hearing.aclose()
    envelope = decode_envelope(body)
    assert len(body) < 1000
    assert envelope.payload.startswith("trace.captured-large-")
    assert envelope.data == {}
    assert unpack(await fetched(bus, BATCH, envelope))["span"] == bytes(3_000_000)
    (read,) = await bus.read(facts_of(TraceCaptured))
    async with aclosing(bus.deliveries("spans")) as coming:
        (delivery,) = await anext(coming)
    assert read.fact == delivery.recorded.fact == fact


async def test_a_large_fact_whose_object_is_gone_is_buried(bus: Bus) -> None:
    fact = a_batch(0)
    lost = in_envelope(fact, id="a").model_copy(update={"data": {}, "payload": "gone"})
    await bus.publish_live(subject_of(fact), encode(lost))
    await bus.publish(a_batch(1, LARGE_BYTES), id="b")
    async with aclosing(bus.deliveries("spans")) as coming:
        (delivery,) = await anext(coming)
    assert delivery.recorded.envelope.id == "b"
    (dead,) = await bus.read(facts_of(LetterBuried))
    assert isinstance(dead.fact, LetterBuried)
    assert "no payload gone" in dead.fact.reason


async def test_the_payloads_of_purged_batches_go_with_them(bus: Bus) -> None:
    sequences = [await bus.publish(a_batch(n, LARGE_BYTES), id=str(n)) for n in range(3)]
    first, second, third = await referred(bus, BATCHES)
    await bus.purge(BATCHES, up_to=sequences[1])
    for envelope in (first, second):
        with pytest.raises(NoSuchPayload):
            await fetched(bus, BATCH, envelope)
    (left,) = await bus.read(BATCHES)
    assert left.fact == a_batch(2, LARGE_BYTES)
    await bus.purge(BATCHES)
    with pytest.raises(NoSuchPayload):
        await fetched(bus, BATCH, third)


async def test_a_batch_that_names_the_payload_of_another_does_not_take_it_along(bus: Bus) -> None:
    theirs = a_batch(0, LARGE_BYTES).model_copy(update={"agent": "a2"})
    reference = await encode_envelope("", in_envelope(theirs, id="theirs"), not_stored)
    await bus.publish_live(BATCH, reference)
    last = await bus.publish(a_batch(0), id="mine")
    await bus.publish(theirs, id="theirs")
    await bus.purge(BATCHES, up_to=last)
    assert [recorded.fact for recorded in await bus.read(BATCHES)] == [theirs]


async def not_stored(_subject: str, _name: str, body: bytes) -> str:
    """Return the checksum of a payload without storing it."""
    return hashlib.sha256(body).hexdigest()


async def test_how_much_a_store_of_batches_holds_is_told(bus: Bus) -> None:
    await bus.publish(a_batch(0, LARGE_BYTES), id="0")
    held = await bus.contents("OBJ_batches")
    assert LARGE_BYTES <= held.size_bytes < held.max_bytes


async def test_a_runs_last_purge_takes_payloads_no_message_refers_to(bus: Bus) -> None:
    elsewhere = subject_of(a_batch(0).model_copy(update={"run": "r2"}))
    mine = await bus.put_object(BATCH, "half", b"x")
    theirs = await bus.put_object(elsewhere, "another", b"x")
    last = await bus.publish(a_batch(0), id="0")
    await bus.purge(BATCHES, up_to=last)
    assert await bus.get_object(BATCH, "half", mine) == b"x"
    await bus.purge(BATCHES)
    with pytest.raises(NoSuchPayload):
        await bus.get_object(BATCH, "half", mine)
    assert await bus.get_object(elsewhere, "another", theirs) == b"x"


async def test_a_purged_batch_said_again_is_whole(bus: Bus) -> None:
    await bus.publish(a_batch(0, LARGE_BYTES), id="a")
    await bus.purge(BATCHES)
    await bus.publish(a_batch(0, LARGE_BYTES), id="b")
    (again,) = await bus.read(BATCHES)
    assert again.fact == a_batch(0, LARGE_BYTES)


async def test_a_decisions_payload_outlives_every_purge(bus: Bus) -> None:
    fact = a_fact("x" * LARGE_BYTES)
    await bus.publish(fact, id="a")
    (envelope,) = await referred(bus, decisions_of(E))
    for filter_subject in ("mlscope.v1.trace.>", decisions_of(E)):
        await bus.purge(filter_subject)
    assert unpack(await fetched(bus, DECISION, envelope))["reason"] == fact.reason


async def test_a_repeat_that_differs_leaves_the_first_readable(bus: Bus) -> None:
    first = a_fact("x" * LARGE_BYTES)
    await bus.publish(first, id="a")
    await bus.publish(a_fact("y" * LARGE_BYTES), id="a")
    (read,) = await bus.read(decisions_of(E))
    assert read.fact == first


@pytest.mark.parametrize("what", ["batch", "decision"])
async def test_a_full_store_is_said_to_the_publisher(world: World, what: str) -> None:
    await world.make(Shape(stores_bytes=2_000_000))
    async with world.connect() as bus:
        with pytest.raises(PayloadsFull, match="MLSCOPE_PAYLOADS_MAX_BYTES") as raised:
            await _publish_large(bus, what, 4)
        expected = (BATCH, "batches") if what == "batch" else (DECISION, "payloads")
        assert (raised.value.subject, raised.value.store) == expected
        kept = await bus.read(BATCHES if what == "batch" else decisions_of(E))
    assert [recorded.envelope.id for recorded in kept] == ["0", "1", "2"]


async def _publish_large(bus: Bus, what: str, count: int) -> None:
    for n in range(count):
        large = a_batch(n, LARGE_BYTES) if what == "batch" else a_fact(f"{n}" * LARGE_BYTES)
        await bus.publish(large, id=str(n))


async def test_a_window_outlasts_a_full_store(world: World) -> None:
    await world.make(Shape(stores_bytes=2_000_000))
    async with world.connect() as bus:
        putting = asyncio.create_task(_put_all(PublishWindow(bus, size=4), 8))
        while not putting.done():
            await asyncio.sleep(0.05)
            await _purge_stored(bus)
        assert sorted(await putting) == list(range(1, 9))


async def _purge_stored(bus: Bus) -> None:
    stored = await bus.read(BATCHES)
    if stored:
        await bus.purge(BATCHES, up_to=stored[-1].sequence)


async def _put_all(window: PublishWindow, count: int) -> list[int]:
    sending = [await window.put(a_batch(n, LARGE_BYTES), id=str(n)) for n in range(count)]
    await window.drain()
    return [task.result() for task in sending]
