"""Connections that are too slow or too many end, and others are served beside them."""

import asyncio
import resource
import socket
import time
from contextlib import suppress

import httpx
import pytest

from mlscope import listening
from mlscope.bus.bus import Bus
from services.gateway.access import connections, lingering
from services.gateway.access.failures import MAX_FAILURES
from services.gateway.site import login
from services.gateway.static_files import shipped_files
from tests.services.gateway.conftest import Running, serving_gateway
from tests.stand_ins import StandIns


async def opened(
    running: Running, sent: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, and send the first bytes of a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def drip(writer: asyncio.StreamWriter) -> None:
    """Send a byte of a header at a time, for ever."""
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.02)


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the connection ends, within a bound."""
    came = b""
    # A reset drops what was not read before it.
    with suppress(ConnectionResetError):
        async with asyncio.timeout(10):
            while part := await reader.read(4096):
                came += part
    return came


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "])
async def test_a_head_that_never_ends_is_dropped(
    running: Running, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    reader, writer = await opened(running, sent)
    dripping = asyncio.create_task(drip(writer)) if sent else None
    assert await ended(reader) == b""
    if dripping is not None:
        dripping.cancel()
    writer.close()


async def test_a_body_that_stops_is_dropped(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BODY_IDLE_S", 0.2)
    head = (
        b"POST /api/evaluations HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    )
    reader, writer = await opened(running, head)
    began_s = time.monotonic()
    await ended(reader)
    assert time.monotonic() - began_s < 5
    writer.close()


async def test_what_is_left_of_an_answered_body_is_not_waited_for(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte from time to time would hold the connection, without any token."""
    monkeypatch.setattr(lingering, "REST_S", 0.2)
    head = (
        b"POST /api/evaluations HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: text/plain\r\nContent-Length: 99999\r\n\r\n"
    )
    reader, writer = await opened(running, head)
    dripping = asyncio.create_task(drip(writer))
    assert (await ended(reader)).startswith(b"HTTP/1.1 415 ")
    dripping.cancel()
    writer.close()


async def test_a_login_that_never_ends_is_refused(
    guarded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lingering, "REST_S", 0.2)
    monkeypatch.setattr(login, "FORM_S", 0.2)
    head = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\n"
    reader, writer = await opened(guarded, head)
    dripping = asyncio.create_task(drip(writer))
    assert (await ended(reader)).startswith(b"HTTP/1.1 401 ")
    dripping.cancel()
    writer.close()


async def test_a_client_that_reads_nothing_is_dropped(
    bus: Bus, standing: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent to it would wait for ever, and its connection with that."""
    monkeypatch.setattr(listening, "UNREAD_S", 0.5)
    lost, lose = asyncio.Event(), connections.BoundedProtocol.connection_lost

    def losing(protocol: connections.BoundedProtocol, exc: Exception | None) -> None:
        lose(protocol, exc)
        if isinstance(exc, TimeoutError):
            lost.set()

    monkeypatch.setattr(connections.BoundedProtocol, "connection_lost", losing)
    address = shipped_files().address("vendor/vega/vega.min.js")
    request = f"GET {address} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    async with serving_gateway(bus) as running:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", running.port))
            client.sendall(request * 8)
            async with asyncio.timeout(20):
                await lost.wait()


async def test_who_sends_a_guess_is_not_what_a_header_says(guarded: Running) -> None:
    """A user of this machine would be another address with each guess, or lock out others."""
    async with httpx.AsyncClient(base_url=guarded.url) as web:
        for number in range(MAX_FAILURES + 1):
            headers = {"X-Forwarded-For": f"10.0.0.{number}"}
            answer = await web.post("/login", data={"token": "wrong"}, headers=headers)
        assert answer.status_code == 429


async def test_a_connection_that_is_kept_serves_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    async with httpx.AsyncClient(base_url=running.url) as web:
        for _ in range(2):
            assert (await web.get("/healthz")).status_code == 200
            await asyncio.sleep(0.4)


ASKED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def known(running: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, and show the token."""
    token = b"Authorization: Bearer correct horse\r\n"
    reader, writer = await opened(
        running, b"HEAD /api/none HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % token
    )
    async with asyncio.timeout(10):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
    return reader, writer


async def test_who_shows_no_token_keeps_nobody_out(
    guarded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All users of a machine have the address of its loopback."""
    monkeypatch.setattr(connections, "max_connections", lambda: 4)
    mine, mine_sends = await known(guarded)
    held = [await opened(guarded, b"GET ") for _ in range(5)]
    reader, writer = await opened(guarded, ASKED)
    assert (await ended(reader)).startswith(b"HTTP/1.1 200 ")
    oldest = [await ended(each) for each, _ in held[:3]]
    assert oldest == [b"", b"", b""]
    assert not held[4][0].at_eof()
    mine_sends.write(ASKED)
    assert (await ended(mine)).startswith(b"HTTP/1.1 200 ")
    for each in (writer, mine_sends, *(writer for _, writer in held)):
        each.close()


async def test_with_a_token_one_address_leaves_room_for_others(
    guarded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda: 8)
    held = [await known(guarded) for _ in range(6)]
    reader, writer = await opened(guarded, b"")
    assert (await ended(reader)).startswith(b"HTTP/1.1 503 ")
    writer.close()
    held[0][1].close()
    await asyncio.sleep(0.1)
    async with httpx.AsyncClient(base_url=guarded.url) as web:
        assert (await web.get("/healthz")).status_code == 200
    for _, other in held:
        other.close()


def test_as_many_files_as_connections_need_may_be_opened() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
        connections.raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(8192, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
