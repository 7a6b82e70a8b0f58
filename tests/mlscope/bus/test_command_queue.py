"""Commands are taken within bounds; whoever waits is told, whatever happens."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from mlscope.bus.command_letters import LETTER_BYTES
from mlscope.bus.command_queue import (
    MOST_BURIED_AT_ONCE,
    MOST_PENDING_BYTES,
    MOST_PERSON_BYTES,
    CommandQueue,
)
from mlscope.bus.envelopes import refusal
from mlscope.bus.errors import PayloadTooLarge, Unreachable
from mlscope.bus.records import ReceivedCommand
from schemas.encoding.codec import unpack
from schemas.people import Asker
from schemas.subjects import asked_subject

ASKED = ReceivedCommand("mlscope.v1.request.catalog", b"{}", True)


class Told:
    """What was answered and buried."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.buried: list[str] = []

    async def respond(self, answer: bytes) -> None:
        """Take an answer."""
        self.answers.append(answer)

    async def bury(self, _: ReceivedCommand, reason: str) -> None:
        """Take a dead letter."""
        self.buried.append(reason)


@pytest.fixture
def told() -> Told:
    """Begin with nothing told."""
    return Told()


class Gate:
    """An answerer that waits to be let on."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.open = asyncio.Event()

    async def answer(self, _: ReceivedCommand) -> bytes:
        """Count who is at work."""
        self.running += 1
        self.most = max(self.most, self.running)
        await self.open.wait()
        self.running -= 1
        return b"{}"


async def settled(is_so: Callable[[], bool]) -> None:
    """Let tasks run until it is so."""
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("never")


async def test_so_many_work_so_many_wait_and_the_rest_are_busy(told: Told) -> None:
    gate = Gate()
    answering = CommandQueue(gate.answer, told.bury, limit_pending=3, limit_running=2)
    for _ in range(5):
        answering.accept(ASKED, told.respond)
    await settled(lambda: len(told.answers) == 2)
    assert [unpack(each)["error"] for each in told.answers] == ["busy", "busy"]
    gate.open.set()
    await settled(lambda: len(told.answers) == 5)
    assert gate.most == 2
    assert (answering.counts.requests, answering.counts.errors) == (5, 2)


async def test_large_commands_wait_within_a_bound_of_memory(told: Told) -> None:
    gate = Gate()
    answering = CommandQueue(gate.answer, told.bury, limit_pending=10)
    large = replace(ASKED, body=bytes(MOST_PENDING_BYTES // 2))
    for _ in range(3):
        answering.accept(large, told.respond)
    answering.accept(replace(large, body=bytes(MOST_PENDING_BYTES + 1)), told.respond)
    await settled(lambda: len(told.answers) == 2)
    assert {unpack(each)["message"] for each in told.answers} == {
        "64 MiB of requests are waiting; try again later"
    }
    gate.open.set()
    await settled(lambda: answering.counts.open == 0)
    answering.accept(replace(large, body=bytes(MOST_PENDING_BYTES + 1)), told.respond)
    await settled(lambda: len(told.answers) == 5)
    assert answering.counts.errors == 2


async def test_a_refused_command_is_held_as_far_as_its_letter_goes() -> None:
    buried: list[int] = []

    async def bury(command: ReceivedCommand, _: str) -> None:
        buried.append(len(command.body))

    answering = CommandQueue(Gate().answer, bury, limit_pending=1)
    for _ in range(2):
        answering.accept(replace(ASKED, body=bytes(1 << 20)), None)
    await settled(lambda: buried == [LETTER_BYTES])
    await answering.close()


async def test_refusals_nobody_waits_for_are_bounded_too(told: Told) -> None:
    gate = Gate()
    answering = CommandQueue(gate.answer, told.bury, limit_pending=2)
    for _ in range(7):
        answering.accept(ASKED, None)
    await settled(lambda: len(told.buried) == 2)
    assert answering.counts.errors == 5
    await answering.close()


async def test_few_refusals_are_buried_at_once() -> None:
    burying, done = 0, asyncio.Event()

    async def refuse(command: ReceivedCommand) -> bytes:
        return refusal("unknown", "no such thing", command.body)

    async def bury(_: ReceivedCommand, __: str) -> None:
        nonlocal burying
        burying += 1
        await done.wait()

    answering = CommandQueue(refuse, bury, limit_pending=40)
    for _ in range(40):
        answering.accept(ASKED, None)
    await settled(lambda: answering.counts.open == MOST_BURIED_AT_ONCE)
    done.set()
    await settled(lambda: answering.counts.open == 0)
    assert burying == MOST_BURIED_AT_ONCE


async def test_refusals_on_their_way_are_bounded_and_nobody_is_left_out(told: Told) -> None:
    gate, sent = Gate(), asyncio.Event()

    async def slow(answer: bytes) -> None:
        await sent.wait()
        await told.respond(answer)

    answering = CommandQueue(gate.answer, told.bury, limit_pending=4)
    assert [answering.accept(ASKED, slow) for _ in range(8)] == [True] * 7 + [False]
    room = asyncio.create_task(answering.wait_for_room())
    await settled(lambda: gate.running == 4)
    assert not room.done()
    sent.set()
    await room
    await settled(lambda: len(told.answers) == 4)
    assert answering.accept(ASKED, slow)
    await settled(lambda: len(told.answers) == 5)
    await answering.close()


async def test_a_refusal_counts_as_an_error_with_its_code(told: Told) -> None:
    async def refuse(asked: ReceivedCommand) -> bytes:
        return refusal("unknown", "no such: thing", asked.body) if asked.body else b"{}"

    answering = CommandQueue(refuse, told.bury, limit_pending=2)
    answering.accept(ASKED, told.respond)
    await settled(lambda: len(told.answers) == 1)
    answering.accept(ReceivedCommand(ASKED.subject, b"", True), told.respond)
    await settled(lambda: len(told.answers) == 2)
    counts = answering.counts
    assert (counts.requests, counts.errors) == (2, 1)
    assert counts.last_error == "unknown:no such: thing"


@pytest.mark.parametrize("is_waited_for", [True, False])
async def test_an_answerer_that_fails_is_said_and_counted(told: Told, is_waited_for: bool) -> None:
    async def fail(_: ReceivedCommand) -> bytes:
        raise KeyError("x")

    answering = CommandQueue(fail, told.bury, limit_pending=2)
    answering.accept(ASKED, told.respond if is_waited_for else None)
    await settled(lambda: bool(told.answers or told.buried))
    heard = unpack(told.answers[0])["error"] if is_waited_for else told.buried[0]
    assert heard.startswith("unavailable")
    assert "KeyError" in answering.counts.last_error


async def test_a_broker_that_is_away_is_no_failure_of_the_service(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: ReceivedCommand) -> bytes:
        raise Unreachable("no server")

    answering = CommandQueue(fail, told.bury, limit_pending=2)
    answering.accept(ASKED, told.respond)
    await settled(lambda: bool(told.answers))
    assert unpack(told.answers[0])["message"] == "the broker is away; try again"
    assert [record.exc_info for record in caplog.records] == [None], "no traceback"


async def test_only_refusals_nobody_heard_are_buried(told: Told) -> None:
    async def well(_: ReceivedCommand) -> bytes:
        return b'{"accepted": true}'

    answering = CommandQueue(well, told.bury, limit_pending=2)
    answering.accept(ASKED, None)
    await settled(lambda: answering.counts.processing_ns > 0)
    await answering.close()
    assert told.buried == []


async def test_a_lost_asker_stops_nothing(told: Told) -> None:
    async def lost(_: bytes) -> None:
        raise Unreachable("inbox")

    async def well(_: ReceivedCommand) -> bytes:
        return b"{}"

    respond: Callable[[bytes], Awaitable[None]] = lost
    answering = CommandQueue(well, told.bury, limit_pending=1)
    answering.accept(ASKED, respond)
    await settled(lambda: answering.counts.processing_ns > 0)
    await asyncio.sleep(0)
    answering.accept(ASKED, told.respond)
    await settled(lambda: told.answers == [b"{}"])


async def test_an_answer_too_large_becomes_a_small_refusal(told: Told) -> None:
    async def bounded(answer: bytes) -> None:
        if len(answer) > 1000:
            raise PayloadTooLarge("inbox", len(answer), 1000)
        await told.respond(answer)

    async def large(_: ReceivedCommand) -> bytes:
        return bytes(2000)

    answering = CommandQueue(large, told.bury, limit_pending=1)
    answering.accept(ASKED, bounded)
    await settled(lambda: bool(told.answers))
    refused = unpack(told.answers[0])
    assert (refused["accepted"], refused["error"]) == (False, "unavailable")
    assert ("2000 bytes" in refused["message"], answering.counts.errors) == (True, 1)


async def test_closing_ends_what_is_at_work(told: Told) -> None:
    gate = Gate()
    answering = CommandQueue(gate.answer, told.bury, limit_pending=2)
    answering.accept(ASKED, told.respond)
    await settled(lambda: gate.running == 1)
    await answering.close()
    assert told.answers == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_one_person_has_so_many_bytes_at_once(told: Told) -> None:
    """Reading them takes a service longer than the broker waits for it."""
    gate = Gate()
    answering = CommandQueue(gate.answer, told.bury, limit_pending=100, limit_running=1)
    vera, olga = (
        replace(
            ASKED,
            subject=asked_subject(Asker(name, "viewer"), "catalog"),
            body=b"x" * (MOST_PERSON_BYTES // 2),
        )
        for name in ("vera", "olga")
    )
    for command in (vera, vera, vera, olga, replace(ASKED, body=vera.body)):
        answering.accept(command, told.respond)
    await settled(lambda: len(told.answers) == 1)
    assert unpack(told.answers[0])["message"] == "2 MiB of yours are waiting; try again later"
    gate.open.set()
    await settled(lambda: len(told.answers) == 5)
    answering.accept(replace(vera, body=b"x" * (2 * MOST_PERSON_BYTES)), told.respond)
    await settled(lambda: len(told.answers) == 6)
    assert "error" not in unpack(told.answers[-1]), "a single one may be larger"


async def test_one_person_leaves_half_of_the_queue_to_others(told: Told) -> None:
    gate = Gate()
    answering = CommandQueue(gate.answer, told.bury, limit_pending=4, limit_running=1)
    vera, olga = (
        replace(ASKED, subject=asked_subject(Asker(name, "viewer"), "catalog"))
        for name in ("vera", "olga")
    )
    for command in (vera, vera, vera, olga, ASKED):
        answering.accept(command, told.respond)
    await settled(lambda: len(told.answers) == 1)
    (refused,) = map(unpack, told.answers)
    assert refused["message"] == "2 of yours are waiting; try again later"
    gate.open.set()
    await settled(lambda: len(told.answers) == 5)
    answering.accept(vera, told.respond)
    await settled(lambda: len(told.answers) == 6)
    assert "error" not in unpack(told.answers[-1])
