"""Heads and bodies within bounds: who passes one is told so, and the rest is read by nobody."""

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import h11
import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlscope.bus.bus import Bus
from services.gateway.access import http_reading, lingering, pulled_bodies
from services.gateway.access.http_reading import BoundedReading
from tests.services.gateway.conftest import Running, serving_gateway
from tests.services.gateway.sent_files import kept_in

HOST = b"Host: localhost\r\n"
OCTETS = b"Content-Type: application/octet-stream\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
FILE = b"POST /api/files?name=a.onnx HTTP/1.1\r\n" + HOST + OCTETS
TINY = b"1\r\nx\r\n"
ASKED = b"GET /healthz HTTP/1.1\r\n" + HOST
LAST = b"Connection: close\r\n\r\n"


async def answer_to(port: int, *sent: bytes) -> bytes:
    """Send each of some bytes by itself, and return all that comes until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.closing(writer):
        for some in sent:
            writer.write(some)
            await asyncio.sleep(0.01)
        async with asyncio.timeout(20):
            return await reader.read()


def contents(folder: Path) -> list[bytes]:
    """Return what the files in a folder hold."""
    return [path.read_bytes() for path in folder.iterdir()]


@pytest.fixture
async def keeping(bus: Bus, tmp_path: Path) -> AsyncIterator[Running]:
    """Lend a gateway without a token that keeps files of up to 100 MB in `tmp_path`."""
    async with serving_gateway(bus, kept_in(tmp_path, 100_000_000)) as running:
        yield running


@pytest.mark.parametrize(
    ("head", "status", "reason"),
    [
        (ASKED + b"a:\r\n" * 100 + b"\r\n", 431, b"more than 100 headers"),
        (ASKED + b"a:\r\n" * 5000, 431, b"more than 100 headers"),
        (ASKED + b"a: " + b"x" * 17_000 + b"\r\n\r\n", 431, b"more than 16384 bytes"),
        (b"GET /healthz?" + b"x" * 70_000 + b" HTTP/1.1\r\n", 431, b"more than 65536 bytes"),
        (b"GET /" + b"%41" * 3000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414, b"path"),
        (b"\x16\x03\x01\x02\x00", 400, b"Invalid HTTP request"),
        (b"\r\n" + ASKED, 400, b"Invalid HTTP request"),
    ],
)
async def test_a_head_beyond_a_bound_is_refused_and_names_it(
    running: Running, head: bytes, status: int, reason: bytes
) -> None:
    answer = await answer_to(running.port, head)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert reason in answer


@pytest.mark.parametrize(
    "head",
    [
        ASKED + b"a:\r\n" * 98 + LAST,
        b"GET /healthz?"
        + b"x=1&" * 4000
        + b" HTTP/1.1\r\n"
        + HOST
        + b"a:"
        + b"x" * 9000
        + b"\r\n"
        + LAST,
        (ASKED + LAST).replace(b"\r\n", b"\n"),
    ],
)
async def test_a_head_within_the_bounds_is_read(running: Running, head: bytes) -> None:
    for parts in ([head], [head[:9], head[9:40], head[40:-1], head[-1:]]):
        assert (await answer_to(running.port, *parts)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", [b"/login", b"/api/files", b"/"])
async def test_who_has_no_token_has_no_chunk_read(
    guarded: Running, monkeypatch: pytest.MonkeyPatch, path: bytes
) -> None:
    counted: list[h11.Data] = []
    monkeypatch.setattr(BoundedReading, "_count", lambda _, data: counted.append(data))
    form = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n"
    head = b"POST " + path + b" HTTP/1.1\r\n" + HOST + form + CHUNKED + b"\r\n"
    answer = await answer_to(guarded.port, head + TINY * 10_000, TINY * 30_000)
    assert answer.startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 303 "))
    assert b"connection: close" in answer
    assert not counted
    async with httpx.AsyncClient(base_url=guarded.url) as web:
        assert (await web.get("/healthz")).status_code == 200


async def test_a_file_in_tiny_chunks_is_refused_and_not_kept(
    keeping: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await answer_to(keeping.port, FILE + CHUNKED + b"\r\n" + TINY * 2000 + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"send chunks of 64 bytes or more" in answer
    assert not contents(tmp_path)
    assert "Exception in ASGI application" not in caplog.text


@pytest.mark.parametrize("length", [CHUNKED, b"Content-Length: 99000000\r\n"])
async def test_a_refused_body_is_not_taken(
    guarded: Running, monkeypatch: pytest.MonkeyPatch, length: bytes
) -> None:
    """Beyond 16 MiB and what the kernel holds, nothing is received from who has no token."""
    monkeypatch.setattr(lingering, "LAST_S", 0.2)
    taken, part = 0, b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", guarded.port))
        await loop.sock_sendall(client, FILE + length + b"\r\n")
        answer = await loop.sock_recv(client, 4096)
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b"connection: close" in answer.lower()
        with contextlib.suppress(ConnectionError):
            while taken < 98_000_000:
                await loop.sock_sendall(client, part)
                taken += len(part)
    assert taken < 60_000_000


async def test_what_came_of_a_refused_body_takes_no_memory(
    guarded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection lingers, and thousands may."""
    made: list[BoundedReading] = []

    def make() -> BoundedReading:
        made.append(BoundedReading())
        return made[-1]

    monkeypatch.setattr(pulled_bodies, "BoundedReading", make)
    await answer_to(guarded.port, FILE + b"Content-Length: 99000000\r\n\r\n" + b"x" * 100_000)
    assert [reading.holds_data for reading in made] == [False]


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send a byte at a time, for as long as somebody takes it."""
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def test_a_gateway_that_stops_ends_what_lingers(
    guarded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lingering, "REST_S", 1000.0)
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
    writer.write(FILE + b"Content-Length: 99000000\r\n\r\n")
    async with asyncio.timeout(20):
        assert (await reader.read()).startswith(b"HTTP/1.1 401 ")
        guarded.stop.set()
        await guarded.serving
        with pytest.raises(ConnectionError):
            await drip(writer)


async def test_a_client_that_only_writes_sees_why_it_is_refused(
    guarded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lingering, "LAST_S", 0.2)
    address, content = f"{guarded.url}/api/files?name=a.onnx", bytes(8_000_000)
    async with httpx.AsyncClient() as web:
        for body in (content, pieces(content, 65_536)):
            assert (await web.post(address, content=body)).status_code == 401
    # An asyncio client would miss the answer where its connection is reset; this one does not.
    answer = await asyncio.to_thread(httpx.post, address, content=bytes(60_000_000), timeout=30)
    assert answer.status_code == 401


async def pieces(content: bytes, size: int) -> AsyncIterator[bytes]:
    """Yield content in pieces, which httpx sends as chunks."""
    for begin in range(0, len(content), size):
        yield content[begin : begin + size]


@pytest.mark.parametrize(
    ("size", "count"), [(1, 900), (64, 3000), (300, 3000), (4096, 500), (300_000, 20)]
)
async def test_a_file_in_chunks_is_kept_whole(
    keeping: Running, tmp_path: Path, size: int, count: int
) -> None:
    content = (b"a line of text\r\n" * (size * count // 16 + 1))[: size * count]
    async with httpx.AsyncClient(base_url=keeping.url) as web:
        answer = await web.post(
            "/api/files",
            params={"name": "a.onnx"},
            content=pieces(content, size),
            headers={"Content-Type": "application/octet-stream"},
        )
    assert (answer.status_code, answer.json()["size_bytes"]) == (201, len(content))
    assert "connection" not in answer.headers
    assert contents(tmp_path) == [content]


async def test_a_chunked_body_may_come_byte_by_byte_with_all_that_http_allows(
    keeping: Running, tmp_path: Path
) -> None:
    body = b'5;why="not"\r\nhello\r\n00006\r\n world\r\n0\r\nA-Trailer: 1\r\nAnother: 2\r\n\r\n'
    sent = FILE + CHUNKED + LAST + body
    answer = await answer_to(keeping.port, *(bytes([one]) for one in sent))
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert contents(tmp_path) == [b"hello world"]


@pytest.mark.parametrize("around", [b"0\r\n" + b"a:\r\n" * 12_000, b"1;" + b"x" * 60_000])
async def test_what_stands_around_chunks_is_bounded(keeping: Running, around: bytes) -> None:
    answer = await answer_to(keeping.port, FILE + CHUNKED + b"\r\n", around, b"x" * 70_000)
    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_a_body_is_asked_for_before_it_is_sent(keeping: Running) -> None:
    head = FILE + b"Expect: 100-continue\r\nContent-Length: 5\r\n" + LAST
    reader, writer = await asyncio.open_connection("127.0.0.1", keeping.port)
    with contextlib.closing(writer):
        writer.write(head)
        async with asyncio.timeout(20):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
            writer.write(b"hello")
            assert (await reader.read()).startswith(b"HTTP/1.1 201 ")


@pytest.mark.parametrize(
    "body", [b"Content-Length: 5\r\n\r\nhello", CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n"]
)
async def test_requests_that_come_together_are_answered_in_order(
    keeping: Running, body: bytes
) -> None:
    answers = await answer_to(keeping.port, ASKED + b"\r\n" + (FILE + body) * 2 + ASKED + LAST)
    parts = answers.split(b"HTTP/1.1 ")[1:]
    assert [part[:3] for part in parts] == [b"200", b"201", b"201", b"200"]


async def test_a_head_behind_a_chunked_body_has_the_same_bounds(keeping: Running) -> None:
    file = FILE + CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n"
    answers = await answer_to(keeping.port, file + b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n")
    parts = answers.split(b"HTTP/1.1 ")[1:]
    assert [part[:3] for part in parts] == [b"201", b"414"]


def test_a_body_is_read_in_parts_as_it_is_asked_for() -> None:
    """What nobody asks for costs nothing, and others have their turn between two parts."""
    reading = BoundedReading()
    reading.receive_data(FILE + CHUNKED + b"\r\n" + TINY * 500)
    assert isinstance(reading.next_event(), h11.Request)
    assert reading.next_event() is h11.PAUSED
    for _ in range(10):
        reading.ask()
        events = []
        while (event := reading.next_event()) is not h11.PAUSED:
            events.append(event)
        assert 0 < len(events) <= 64


def test_the_body_that_has_a_length_ends_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """h11 has nothing of the next head, which is checked first."""
    monkeypatch.setattr(http_reading, "_PART_BYTES", 4)
    reading = BoundedReading()
    reading.receive_data(FILE + b"Content-Length: 6\r\n\r\nsecret" + ASKED)
    content = b""
    while not isinstance(event := reading.next_event(), h11.EndOfMessage):
        if isinstance(event, h11.Data):
            content += event.data
        reading.ask()
    assert (content, reading.trailing_data[0], reading.holds_data) == (b"secret", b"", True)


class CountedSearches:
    """The pattern of a head's end, which counts the bytes that it searches."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def search(self, arrived: bytes) -> re.Match[bytes] | None:
        """Search what has `arrived` of a head."""
        self.size_bytes += len(arrived)
        return re.search(rb"\n\r?\n", arrived)


def test_a_head_that_comes_byte_by_byte_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a search of all its beginning for each byte: of 48 KB that took the loop 1.6 s."""
    searches, reading = CountedSearches(), BoundedReading()
    monkeypatch.setattr(http_reading, "_END_OF_HEAD", searches)
    head = b"GET /healthz?" + b"x" * 48_000 + b" HTTP/1.1\r\n" + HOST + LAST
    event: object = None
    for byte in head:
        assert event in (None, h11.NEED_DATA)
        reading.receive_data(bytes([byte]))
        event = reading.next_event()
    assert isinstance(event, h11.Request)
    assert searches.size_bytes < 10 * len(head)


def outcome_of(reading: BoundedReading, arrived: bytes) -> str:
    """Return what a `reading` says once something more has `arrived`."""
    reading.receive_data(arrived)
    try:
        event = reading.next_event()
    except h11.RemoteProtocolError as error:
        return str(error)
    return "head" if isinstance(event, h11.Request) else repr(event)


PIECES = (b"GET /", b"?", b"x" * 8, b"y" * 25, b" HTTP/1.1\r\n", b"a: ", b"\r\n", b"\n", b"\x16")


LONG = [b"GET /", b"?", b"y" * 25, b"x" * 8, b" HTTP/1.1\r\n", b"y" * 25]


def reading_behind_a_body(begun: bytes) -> BoundedReading:
    """Return what awaits a head that has `begun` in one part with the end of a chunked body."""
    reading = BoundedReading()
    reading.receive_data(FILE + CHUNKED + b"\r\n0\r\n\r\n" + begun)
    while not isinstance(reading.next_event(), h11.EndOfMessage):
        reading.ask()
    reading.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
    reading.send(h11.EndOfMessage())
    reading.start_next_cycle()
    return reading


@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=12),
    begun_bytes=st.integers(0, 40),
    step=st.integers(1, 3),
)
@example(pieces=LONG, begun_bytes=0, step=1)
def test_a_head_in_parts_is_judged_as_one_that_is_there_at_once(
    pieces: list[bytes], begun_bytes: int, step: int
) -> None:
    sent = b"".join(pieces)
    reading, arrived = reading_behind_a_body(sent[:begun_bytes]), b""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_reading, "MOST_HEAD_BYTES", 70)
        patch.setattr(http_reading, "MOST_PATH_BYTES", 30)
        patch.setattr(http_reading, "MOST_HEADERS_BYTES", 30)
        patch.setattr(http_reading, "MOST_HEADERS", 3)
        for end in range(begun_bytes, len(sent) + step, step):
            outcome = outcome_of(reading, arrived)
            assert outcome == outcome_of(BoundedReading(), sent[:end])
            if outcome != repr(h11.NEED_DATA):
                break
            arrived = sent[end : end + step]
