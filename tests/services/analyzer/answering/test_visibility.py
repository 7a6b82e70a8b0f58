"""Private evaluations: whoever may not see one is answered as if there were none."""

from collections.abc import AsyncIterator

import msgpack
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand, Recorded
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import encode_body, unpack
from schemas.evaluation import EvaluationRequested
from schemas.message import Command
from schemas.people import THE_USER, Asker
from schemas.request import Compare, Evaluate, ShowFlow, ShowTables
from schemas.subjects import asked_subject, command_subject, request_of
from services.analyzer.answering.visibility import Visibility, evaluations_in

ADA, BOB = Asker("ada", "requester"), Asker("bob", "viewer")
OLGA = Asker("olga", "owner")


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
async def bus(server: MemoryServer) -> AsyncIterator[Bus]:
    async with connect(server, "scheduler") as lent:
        yield lent


async def request(bus: Bus, evaluation: str, visibility: str, requested_by: str) -> None:
    """Record a request."""
    wanted = Evaluate.model_validate({"model": "tiny", "visibility": visibility})
    fact = EvaluationRequested(
        evaluation=evaluation, request=wanted, requested_ns=1, requested_by=requested_by
    )
    await bus.publish(fact, id=evaluation)


async def answer(command: ReceivedCommand) -> bytes:
    """Answer anything."""
    return b'{"accepted": true}'


async def is_answered(visibility: Visibility, asker: Asker, command: Command) -> bool:
    """Tell whether a guarded answerer gives an answer, rather than knowing no such evaluation."""
    named = asked_subject(asker, command.verb) if asker.name else command_subject(type(command))
    received = ReceivedCommand(named, encode_body(command), wants_answer=True)
    body = await visibility.guarded(type(command), answer)(received)
    assert body is not None
    answered = unpack(body)
    assert answered["accepted"] or answered["error"] == "unknown"
    return bool(answered["accepted"])


async def test_what_is_hidden_is_unknown_whichever_way_it_is_named(bus: Bus) -> None:
    visibility = Visibility(bus)
    await request(bus, "e1", "cluster", "ada")
    assert await visibility.visible_to(BOB) == ["e1"]
    await request(bus, "e2", "private", "ada")
    await request(bus, "e3", "private", "")
    assert await visibility.visible_to(ADA) == ["e1", "e2"]
    assert await visibility.visible_to(BOB) == ["e1"]
    assert await visibility.visible_to(OLGA) is None
    assert await visibility.visible_to(THE_USER) is None
    commands: tuple[Command, ...] = (
        ShowTables(evaluation="e2"),
        ShowFlow(evaluation="e2"),
        Compare(first="e1", second="e2"),
        Compare(first="e2", second="e1"),
        Compare(first="e1", second="e1", others=("e1", "e2"), figures=True),
    )
    for command in commands:
        for asker, expected in ((ADA, True), (BOB, False), (OLGA, True), (THE_USER, True)):
            assert await is_answered(visibility, asker, command) is expected
    assert await is_answered(visibility, BOB, ShowTables(evaluation="e1"))


async def test_the_log_is_read_page_by_page(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.analyzer.answering.visibility._PAGE_FACTS", 2)
    read, sizes = bus.read, list[int]()

    async def noted(subject: str, *, after: int, at_most: int) -> list[Recorded]:
        page = await read(subject, after=after, at_most=at_most)
        sizes.append(len(page))
        return page

    monkeypatch.setattr(bus, "read", noted)
    for number in range(5):
        await request(bus, f"e{number}", "private", "ada")
    assert len(await Visibility(bus).visible_to(ADA) or ()) == 5
    assert sizes == [2, 2, 1, 0]


async def test_a_refusal_takes_as_many_reads_for_a_hidden_evaluation_as_for_none(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    visibility = Visibility(bus)
    await request(bus, "e1", "private", "ada")
    assert await visibility.visible_to(BOB) == []
    assert await is_answered(visibility, ADA, ShowTables(evaluation="e1"))
    read, reads = bus.read, list[str]()

    async def noted(subject: str, *, at_most: int, after: int = 0) -> list[Recorded]:
        reads.append(subject)
        return await read(subject, after=after, at_most=at_most)

    monkeypatch.setattr(bus, "read", noted)
    counts = []
    for evaluation in ("e1", "none"):
        reads.clear()
        assert not await is_answered(visibility, BOB, ShowTables(evaluation=evaluation))
        counts.append(len(reads))
    assert counts == [1, 1]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"others": 3, "first": [1]}', b"\xff"])
def test_what_is_no_command_names_no_evaluation(body: bytes) -> None:
    assert evaluations_in(Compare, body) == frozenset()


@pytest.mark.parametrize("name", ["e2", b"e2"])
def test_a_name_as_bytes_names_the_evaluation_too(name: str | bytes) -> None:
    assert evaluations_in(ShowTables, msgpack.packb({"evaluation": name})) == {"e2"}
    body = msgpack.packb({"first": "e1", "second": "e1", "others": [name]})
    assert evaluations_in(Compare, body) == {"e1", "e2"}


async def test_a_request_that_cannot_be_read_may_be_private(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    visibility = Visibility(bus)
    await request(bus, "e1", "cluster", "ada")
    monkeypatch.setattr(bus, "unread", lambda evaluation: int(evaluation == "e1"))
    for asker, expected in ((BOB, False), (OLGA, True), (THE_USER, True)):
        assert await is_answered(visibility, asker, ShowTables(evaluation="e1")) is expected


async def test_what_the_log_lacks_or_cannot_be_read_is_visible_to_owners_alone(
    server: MemoryServer, bus: Bus
) -> None:
    await request(bus, "e1", "cluster", "ada")
    server.send(request_of("e2"), b"damaged")
    await request(bus, "e3", "private", "ada")
    visibility = Visibility(bus)
    for asker, expected in ((ADA, ["e1", "e3"]), (BOB, ["e1"]), (OLGA, None), (THE_USER, None)):
        assert await visibility.visible_to(asker) == expected
        for evaluation in ("e2", "lacking"):
            command = ShowTables(evaluation=evaluation)
            assert await is_answered(visibility, asker, command) is (expected is None)


async def test_what_was_ever_requested_as_private_stays_private(bus: Bus) -> None:
    visibility = Visibility(bus)
    for number, name in enumerate(("cluster", "private", "cluster")):
        wanted = Evaluate.model_validate({"model": "tiny", "visibility": name})
        fact = EvaluationRequested(
            evaluation="e1", request=wanted, requested_ns=1, requested_by="ada"
        )
        await bus.publish(fact, id=str(number))
    assert await visibility.visible_to(BOB) == []
    assert await visibility.visible_to(ADA) == ["e1"]
