"""Requests sent on one connection before the first is answered: in order, each with its own bytes.

Of a request that is answered before the whole of its body was read, nothing is taken for another.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mlscope.assets.artifacts import Artifact
from mlscope.bus.bus import Bus
from services.gateway.access.http_reading import BoundedReading
from services.gateway.sent.files import SentFiles
from services.gateway.site import exploring
from tests.services.gateway.conftest import Running, serving_gateway
from tests.services.gateway.sent_files import FolderStore

HOST = b"Host: localhost\r\n"
ASKED = b"GET /healthz HTTP/1.1\r\n" + HOST
LAST = b"Connection: close\r\n\r\n"
TOKEN = b"Authorization: Bearer correct horse\r\n"
FILE = b"POST /api/files?name=a.onnx HTTP/1.1\r\n" + HOST
OCTETS = b"Content-Type: application/octet-stream\r\n"
SMUGGLED = ASKED + b"\r\n"
"""The content of a body that would be a request of its own."""


@dataclass
class HeldStore(FolderStore):
    """Keeps a file once the test lets it; until then its request has no answer."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    let: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, name: str, path: Path) -> Artifact:
        """Keep a file when it may be."""
        self.begun.set()
        await self.let.wait()
        return await super().put(name, path)


@pytest.fixture
def held(tmp_path: Path) -> HeldStore:
    """Return a store that keeps files when `let` is set."""
    return HeldStore(tmp_path)


@pytest.fixture
async def holding(bus: Bus, held: HeldStore) -> AsyncIterator[Running]:
    """Lend a gateway without a token that keeps files of up to 100 bytes in `held`."""

    @asynccontextmanager
    async def connect() -> AsyncIterator[HeldStore]:
        yield held

    async with serving_gateway(bus, SentFiles(connect, 100)) as running:
        yield running


@asynccontextmanager
async def connected(
    running: Running,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Lend a connection, within a bound."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    with contextlib.closing(writer):
        async with asyncio.timeout(20):
            yield reader, writer


async def statuses(running: Running, *sent: bytes) -> list[bytes]:
    """Send each of some bytes by itself, and return the statuses that come until the end."""
    async with connected(running) as (reader, writer):
        for some in sent:
            writer.write(some)
            await asyncio.sleep(0.02)
        return [part[:3] for part in (await reader.read()).split(b"HTTP/1.1 ")[1:]]


def with_length(content: bytes) -> bytes:
    """Return the end of a head, and a body of that length."""
    return b"Content-Length: %d\r\n\r\n%s" % (len(content), content)


def in_a_chunk(content: bytes) -> bytes:
    """Return the end of a head, and a body in one chunk."""
    return b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)


async def test_a_request_waits_for_the_answer_to_the_one_before(
    holding: Running, held: HeldStore
) -> None:
    """Its own would be ready at once, and taken for the other's."""
    async with connected(holding) as (reader, writer):
        writer.write(FILE + OCTETS + with_length(b"hello"))
        await held.begun.wait()
        writer.write(ASKED + LAST)
        coming = asyncio.create_task(reader.read())
        await asyncio.sleep(0.2)
        assert not coming.done()
        held.let.set()
        answers = (await coming).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"201", b"200"]
    assert hashlib.sha256(b"hello").hexdigest().encode() in answers[0]
    assert b'"ok":true' in answers[1].replace(b" ", b"")


async def test_what_comes_behind_a_request_is_not_taken_before_its_answer(
    holding: Running, held: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may send for as long as its answer takes, and all of it would be in memory."""
    taken_bytes, take = 0, BoundedReading.receive_data

    def taking(reading: BoundedReading, data: bytes) -> None:
        nonlocal taken_bytes
        taken_bytes += len(data)
        take(reading, data)

    monkeypatch.setattr(BoundedReading, "receive_data", taking)
    async with connected(holding) as (reader, writer):
        writer.write(FILE + OCTETS + with_length(b"hello"))
        await held.begun.wait()
        for _ in range(100):
            writer.write(SMUGGLED * 1000)
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.2)
        assert taken_bytes < 1_000_000
        held.let.set()
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 201 ")


@pytest.mark.parametrize("body", [with_length, in_a_chunk])
@pytest.mark.parametrize(
    ("head", "status"),
    [(FILE + OCTETS, b"401"), (FILE + TOKEN + b"Content-Type: text/html\r\n", b"415")],
    ids=["without a token", "of a wrong type"],
)
async def test_the_unread_body_of_a_refused_request_is_no_other_request(
    guarded: Running, head: bytes, status: bytes, body: Callable[[bytes], bytes]
) -> None:
    """Its connection ends with the answer: the client sends anew what stood behind it."""
    refused = head + body(SMUGGLED)
    end = refused.index(b"\r\n\r\n") + 4
    for sent in (
        [refused + ASKED + LAST],
        [refused[:end], refused[end:] + ASKED + LAST],
        [refused, ASKED + LAST],
        [refused[: end + 9], refused[end + 9 :], ASKED + LAST],
    ):
        assert await statuses(guarded, *sent) == [status]


@pytest.mark.parametrize("body", [with_length, in_a_chunk])
async def test_the_rest_of_a_body_that_is_too_large_is_no_other_request(
    holding: Running, held: HeldStore, body: Callable[[bytes], bytes]
) -> None:
    """It is refused in the midst of its body, of which more has come."""
    held.let.set()
    refused = FILE + OCTETS + body(b"x" * 400_000 + SMUGGLED * 10)
    for sent in ([refused + ASKED + LAST], [refused, ASKED + LAST]):
        assert await statuses(holding, *sent) == [b"413"]


async def test_a_refused_request_without_a_body_leaves_the_next_one_its_answer(
    guarded: Running,
) -> None:
    refused = b"GET /api/models HTTP/1.1\r\n" + HOST + b"\r\n"
    assert await statuses(guarded, refused + ASKED + LAST) == [b"401", b"200"]
    assert await statuses(guarded, refused, ASKED + LAST) == [b"401", b"200"]


async def test_a_token_is_of_its_own_request(guarded: Running) -> None:
    """Not of the connection, which may be a proxy's for many."""
    missing = b"GET /api/none HTTP/1.1\r\n" + HOST
    sent = missing + TOKEN + b"\r\n" + missing + b"\r\n" + missing + TOKEN + LAST
    assert await statuses(guarded, sent) == [b"404", b"401", b"404"]


async def test_what_comes_behind_the_last_request_is_not_answered(holding: Running) -> None:
    assert await statuses(holding, ASKED + LAST + SMUGGLED) == [b"200"]


async def test_a_head_that_comes_in_part_during_a_streamed_answer_is_read_to_its_end(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def in_two_parts(*_: object) -> AsyncIterator[str]:
        yield "first"
        await asyncio.sleep(0.1)
        yield "second"

    monkeypatch.setattr(exploring, "with_parts", in_two_parts)
    async with connected(running) as (reader, writer):
        writer.write(b"GET /explore HTTP/1.1\r\n" + HOST + b"\r\n" + ASKED[:9])
        await reader.readuntil(b"first")
        assert (await reader.readuntil(b"\r\n0\r\n\r\n")).count(b"second") == 1
        writer.write(ASKED[9:] + LAST)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
