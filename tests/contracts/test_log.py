"""The log: publishing once, guarded, bounded; reading and following completely."""

import asyncio
import time
from contextlib import aclosing
from types import SimpleNamespace

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Conflict, PayloadTooLarge, StreamFull, Unreachable
from mlscope.bus.records import Unreadable
from mlscope.bus.window import PublishWindow
from schemas.analysis import AnalysisFailed
from schemas.dead import LetterBuried
from schemas.subjects import attempt_batches, decisions_of, facts_of, story_of
from tests.contracts.facts import E, a_batch, a_fact
from tests.contracts.worlds import Shape, World

DECISIONS = decisions_of(E)


async def test_a_fact_comes_back_as_it_was_said(bus: Bus) -> None:
    sequence = await bus.publish(a_fact("why"), id="a", cause="c", traceparent="00-1-2-01")
    (read,) = await bus.read(DECISIONS)
    assert read.fact == a_fact("why")
    assert (read.sequence, read.subject) == (sequence, f"mlscope.v1.evaluation.{E}.cancelled")
    assert (read.envelope.id, read.envelope.cause) == ("a", "c")
    assert read.envelope.traceparent == "00-1-2-01"
    assert read.envelope.time_ns > 0


async def test_what_cannot_be_read_is_skipped_and_given_to_who_asks(bus: Bus) -> None:
    await bus.publish(a_fact(), id="a")
    before_ns, subject = time.time_ns(), f"mlscope.v1.evaluation.{E}.paused"
    await bus.publish_live(subject, b"from the future")
    unreadable: list[Unreadable] = []
    async with asyncio.timeout(10):
        while not unreadable:
            assert len(await bus.read(DECISIONS, unreadable=unreadable)) == 1
    assert (unreadable[0].subject, unreadable[0].sequence) == (subject, 2)
    assert abs(unreadable[0].stored_ns - before_ns) < 60e9
    assert "from the future" in unreadable[0].reason
    assert len(await bus.read(DECISIONS)) == 1


async def test_the_first_facts_alone_are_read(bus: Bus) -> None:
    sequences = [await bus.publish(a_fact(), id=str(number)) for number in range(3)]
    first = await bus.read(DECISIONS, at_most=2)
    assert [recorded.sequence for recorded in first][:2] == sequences[:2]
    last = await bus.read(DECISIONS, after=sequences[1], at_most=2)
    assert [recorded.sequence for recorded in last] == sequences[2:]


async def test_when_a_fact_was_stored_is_the_servers_word_not_the_senders(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender's clock may be a day ahead."""
    day_ns, before_ns = 86_400_000_000_000, time.time_ns()
    ahead = SimpleNamespace(time_ns=lambda: time.time_ns() + day_ns)
    monkeypatch.setattr("mlscope.bus.envelopes.time", ahead)
    await bus.publish(a_fact(), id="a")
    async with aclosing(bus.follow(DECISIONS)) as log, aclosing(bus.deliveries("scheduler")) as own:
        followed, (delivery,) = await anext(log), await anext(own)
    (read,) = await bus.read(DECISIONS)
    assert followed is not None
    for recorded in (read, followed, delivery.recorded):
        assert recorded.envelope.time_ns > before_ns + day_ns
        assert recorded.at_ns == recorded.stored_ns == read.stored_ns
    assert before_ns <= read.stored_ns <= (await bus.backlog("scheduler")).at_ns <= time.time_ns()


async def test_the_same_id_is_stored_once(bus: Bus) -> None:
    first = await bus.publish(a_fact(), id="a")
    again = await bus.publish(a_fact("other words"), id="a")
    assert first == again
    assert len(await bus.read(DECISIONS)) == 1


async def test_a_guard_that_holds_lets_the_fact_in(bus: Bus) -> None:
    first = await bus.publish(a_fact(), id="a", expected=(DECISIONS, 0))
    second = await bus.publish(a_fact(), id="b", expected=(DECISIONS, first))
    assert second > first


async def test_a_guard_that_fails_is_a_conflict(bus: Bus) -> None:
    await bus.publish(a_fact(), id="a")
    with pytest.raises(Conflict) as raised:
        await bus.publish(a_fact(), id="b", expected=(DECISIONS, 0))
    assert (raised.value.subject, raised.value.expected) == (DECISIONS, 0)
    assert len(await bus.read(DECISIONS)) == 1


async def test_a_guard_minds_its_own_evaluation_only(bus: Bus) -> None:
    await bus.publish(a_fact(evaluation="another"), id="a")
    assert await bus.publish(a_fact(), id="b", expected=(DECISIONS, 0))


async def test_one_of_many_guarded_writers_wins(world: World) -> None:
    async with world.connect("one") as one, world.connect("two") as two:
        writing = [
            bus.publish(a_fact(), id=f"{bus.name}{n}", expected=(DECISIONS, 0))
            for n in range(10)
            for bus in (one, two)
        ]
        ends = await asyncio.gather(*writing, return_exceptions=True)
        assert sum(isinstance(end, int) for end in ends) == 1
        assert sum(isinstance(end, Conflict) for end in ends) == 19


async def test_our_own_id_after_a_conflict_was_a_lost_acknowledgement(world: World) -> None:
    await world.make(Shape(duplicate_window_s=0.1))
    async with world.connect() as bus:
        first = await bus.publish(a_fact(), id="a", expected=(DECISIONS, 0))
        await bus.publish(a_fact(), id="b", expected=(DECISIONS, first))
        await asyncio.sleep(0.3)
        assert await bus.publish(a_fact(), id="a", expected=(DECISIONS, 0)) == first
        assert len(await bus.read(DECISIONS)) == 2


async def test_reading_is_complete_with_repeated_subjects(bus: Bus) -> None:
    window = PublishWindow(bus, size=100)
    for n in range(2500):
        await window.put(a_fact(str(n), evaluation=f"e{n % 2}"), id=str(n))
    await window.drain()
    read = await bus.read(decisions_of("e1"))
    assert sorted(int(r.fact.reason) for r in read) == list(range(1, 2500, 2))  # type: ignore[attr-defined]
    sequences = [r.sequence for r in read]
    assert sequences == sorted(sequences)
    after = sequences[1000]
    assert [r.sequence for r in await bus.read(decisions_of("e1"), after=after)] == sequences[1001:]


async def test_large_facts_are_read_completely(bus: Bus) -> None:
    for n in range(12):
        await bus.publish(a_batch(n, 200_000), id=str(n))
    read = await bus.read(attempt_batches("trace", E, "r1"))
    assert [r.fact.sequence for r in read] == list(range(12))  # type: ignore[attr-defined]


async def test_a_story_is_read_in_one_filter(bus: Bus) -> None:
    await bus.publish(a_fact(), id="a")
    await bus.publish(AnalysisFailed(evaluation=E, cause="none"), id="b")
    await bus.publish(a_fact(evaluation="another"), id="c")
    assert [r.envelope.id for r in await bus.read(story_of(E))] == ["a", "b"]


async def test_a_reader_steps_over_what_it_cannot_read(bus: Bus) -> None:
    await bus.publish(a_fact(), id="a")
    await bus.publish_live(f"mlscope.v1.evaluation.{E}.strange", b"\x00 no fact")
    await bus.publish(a_fact(), id="b")
    assert [r.envelope.id for r in await bus.read(DECISIONS)] == ["a", "b"]


async def test_a_full_stream_refuses_until_it_is_purged(world: World) -> None:
    await world.make(Shape(max_bytes=64_000))
    async with world.connect() as bus:
        with pytest.raises(StreamFull):
            await _publish_batches(bus, 100)
        await bus.purge(attempt_batches("trace", E, "r1"))
        assert await bus.read(attempt_batches("trace", E, "r1")) == []
        assert await bus.publish(a_batch(0, 10_000), id="again")


async def test_dead_letters_push_out_the_oldest(world: World) -> None:
    await world.make(Shape(max_bytes=64_000))
    async with world.connect() as bus:
        for n in range(20):
            letter = LetterBuried(service="s", reason=str(n), subject="x", body=bytes(10_000))
            await bus.publish(letter, id=str(n))
        reasons = [int(r.envelope.data["reason"]) for r in await bus.read(facts_of(LetterBuried))]
    assert 1 < len(reasons) < 7
    assert reasons == list(range(20 - len(reasons), 20))


async def test_a_stream_is_purged_up_to_a_sequence(bus: Bus) -> None:
    last = [await bus.publish(a_batch(n, 10), id=str(n)) for n in range(4)]
    batches = attempt_batches("trace", E, "r1")
    await bus.purge(batches, up_to=last[1])
    assert [r.sequence for r in await bus.read(batches)] == last[2:]
    await bus.purge(batches)
    assert await bus.read(batches) == []


async def test_what_a_stream_holds_is_told(world: World) -> None:
    await world.make(Shape(max_bytes=64_000))
    async with world.connect() as bus:
        assert (await bus.contents("TRACES")).size_bytes == 0
        sequences = [await bus.publish(a_batch(n, 5_000), id=str(n)) for n in range(3)]
        await bus.purge(attempt_batches("trace", E, "r1"), up_to=sequences[0])
        held = await bus.contents("TRACES", on=attempt_batches("trace", E, "r1"))
        assert (held.first, held.last, held.messages) == (sequences[1], sequences[2], 2)
        assert 10_000 < held.size_bytes < held.max_bytes == 64_000
        none = await bus.contents("TRACES", on=attempt_batches("trace", E, "r2"))
        assert (none.messages, none.size_bytes) == (0, held.size_bytes)


async def _publish_batches(bus: Bus, count: int) -> None:
    for n in range(count):
        await bus.publish(a_batch(n, 10_000), id=str(n))


async def test_a_window_outlasts_a_full_stream(world: World) -> None:
    await world.make(Shape(max_bytes=64_000))
    batches = attempt_batches("trace", E, "r1")
    async with world.connect() as bus:
        putting = asyncio.create_task(_put_all(PublishWindow(bus, size=4), 12))
        while not putting.done():
            await asyncio.sleep(0.05)
            await bus.purge(batches)
        assert sorted(await putting) == list(range(1, 13))


async def _put_all(window: PublishWindow, count: int) -> list[int]:
    sending = [await window.put(a_batch(n, 10_000), id=str(n)) for n in range(count)]
    await window.drain()
    assert window.pending == 0
    return [task.result() for task in sending]


async def test_a_message_beyond_the_servers_bound_is_refused(bus: Bus) -> None:
    with pytest.raises(PayloadTooLarge) as raised:
        await bus.publish_live("mlscope.v1.live.x", bytes(9_000_000))
    assert raised.value.limit_bytes == 8 * 1024 * 1024


async def test_a_server_that_stays_away_is_unreachable(world: World) -> None:
    async with world.connect(patience_s=0.4) as bus:
        await world.stop()
        try:
            with pytest.raises(Unreachable):
                await bus.publish(a_fact(), id="a")
            with pytest.raises(Unreachable):
                await bus.ask("mlscope.v1.request.catalog", b"", timeout_s=0.4)
        finally:
            await world.start()


async def test_publishing_waits_for_a_server_that_comes_back(world: World) -> None:
    async with world.connect() as bus:
        await bus.publish(a_fact(), id="a")
        await world.stop()
        publishing = asyncio.create_task(bus.publish(a_fact(), id="b"))
        await asyncio.sleep(0.1)
        await world.start()
        await publishing
        assert [r.envelope.id for r in await bus.read(DECISIONS)] == ["a", "b"]


async def test_following_catches_up_then_goes_on(bus: Bus) -> None:
    first = await bus.publish(a_fact(), id="a")
    await bus.publish(a_fact(), id="b")
    async with aclosing(bus.follow(DECISIONS, after=first)) as following:
        caught = await anext(following)
        assert caught is not None
        assert caught.envelope.id == "b"
        assert await anext(following) is None
        for n in range(50):
            await bus.publish(a_fact(evaluation="another"), id=f"x{n}")
            await bus.publish(a_fact(), id=str(n))
            live = await anext(following)
            assert live is not None
            assert live.envelope.id == str(n)


async def test_following_outlives_the_server(world: World) -> None:
    async with world.connect("reader") as reader, world.connect("writer") as writer:
        await writer.publish(a_fact(), id="0")
        seen: list[str] = []
        following = asyncio.create_task(_follow_until(reader, seen, 30))
        for n in range(1, 30):
            if n == 10:
                await world.stop()
                await world.start()
            await writer.publish(a_fact(), id=str(n))
        await following
        assert seen == [str(n) for n in range(30)]


async def _follow_until(bus: Bus, seen: list[str], count: int) -> None:
    async with aclosing(bus.follow(DECISIONS)) as following:
        async for recorded in following:
            if recorded is not None:
                seen.append(recorded.envelope.id)
            if len(seen) == count:
                return
