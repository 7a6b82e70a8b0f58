"""Commands over core NATS: whom an answer may go to, and what ends with the connection."""

import asyncio
from typing import Any

import nats
import pytest

from mlscope.bus.command_queue import CommandQueue
from mlscope.bus.errors import NoAnswer
from mlscope.bus.nats.connection import Connection
from mlscope.bus.records import ReceivedCommand, Recorded
from schemas.dead import LetterBuried
from schemas.subjects import facts_of
from tests.contracts.worlds import NatsWorld

SUBJECT = "mlscope.v1.request.catalog"


async def refuse(_: ReceivedCommand) -> bytes:
    """Say no."""
    return b'{"accepted": false, "error": "invalid", "message": "no"}'


async def test_an_answer_goes_to_an_inbox_only(world: NatsWorld) -> None:
    forged = "mlscope.v1.agent.a1.left"
    async with world.connect() as bus:
        await bus.answer(SUBJECT, refuse, queue="registry")
        client = await nats.connect(world.server.url)
        await client.publish(SUBJECT, b"{}", reply=forged)
        await client.flush()
        letters: list[Recorded] = []
        while not letters:
            letters = await bus.read(facts_of(LetterBuried))
            await asyncio.sleep(0.01)
        await client.close()
        assert await bus.read("mlscope.v1.agent.>") == []
    assert isinstance(letters[0].fact, LetterBuried)
    assert letters[0].fact.reason == "invalid: no"


async def test_a_service_without_letters_buries_no_refusal(world: NatsWorld) -> None:
    """Its key may not: the broker would refuse the letter, and log that."""
    async with world.connect("gateway") as bus:
        await bus.answer(SUBJECT, refuse, queue="gateway")
        await bus.publish_live(SUBJECT, b"{}")
        assert await bus.ask(SUBJECT, b"{}")
        assert await bus.read(facts_of(LetterBuried)) == []


async def test_of_a_flood_all_are_told_and_few_refusals_are_on_their_way(
    world: NatsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_their_way: list[int] = []
    release, room = asyncio.Event(), CommandQueue.wait_for_room

    async def counted(answering: CommandQueue) -> None:
        on_their_way.append(len(asyncio.all_tasks()))
        await room(answering)

    async def held(_: ReceivedCommand) -> bytes:
        await release.wait()
        return b"{}"

    monkeypatch.setattr(CommandQueue, "wait_for_room", counted)
    async with world.connect() as bus, world.connect("asker") as asker:
        await bus.answer(SUBJECT, held, queue="registry", limit_pending=5)
        idle = len(asyncio.all_tasks())
        asking = [asyncio.create_task(asker.ask(SUBJECT, b"{}", timeout_s=60)) for _ in range(500)]
        done, left = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        while len(left) > 5:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED, timeout=60)
            assert done
        release.set()
        answers = await asyncio.gather(*asking)
    assert sum(b"busy" in answer for answer in answers) == 495
    assert on_their_way
    assert max(on_their_way) <= idle + len(asking) + 5 + 5


async def test_nobody_answers_for_a_closed_bus(world: NatsWorld) -> None:
    async with world.connect("asker", patience_s=0.2) as asker:
        async with world.connect("answerer") as answerer:
            await answerer.answer(SUBJECT, refuse, queue="registry")
            assert await asker.ask(SUBJECT, b"{}")
        with pytest.raises(NoAnswer):
            await asker.ask(SUBJECT, b"{}", timeout_s=0.5)


async def test_a_hearing_ends_with_its_bus(world: NatsWorld) -> None:
    async with world.connect() as bus:
        hearing = await bus.subscribe("mlscope.>").ready()
        await bus.publish_live("mlscope.v1.live.x", b"1")
        assert (await anext(hearing))[1] == b"1"
        waiting = asyncio.create_task(anext(hearing, None))
        await asyncio.sleep(0)
    assert await waiting is None


async def test_a_question_that_nobody_gets_is_sent_once_more(
    world: NatsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that reads a changed configuration passes nothing on for a moment."""
    request, unheard = Connection.request, [NoAnswer(SUBJECT)]

    async def deaf_at_first(connection: Connection, *details: Any, **others: Any) -> Any:
        if unheard:
            raise unheard.pop()
        return await request(connection, *details, **others)

    async with world.connect() as bus:
        await bus.answer(SUBJECT, refuse, queue="registry")
        monkeypatch.setattr(Connection, "request", deaf_at_first)
        assert b"invalid" in await bus.ask(SUBJECT, b"{}")
    assert unheard == []
