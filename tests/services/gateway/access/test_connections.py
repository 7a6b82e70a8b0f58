"""Connections that are too slow or too many end, and others are served beside them."""

import asyncio
import resource
import ssl
import time
from pathlib import Path

import httpx
import pytest

from cli.cluster.keys.certificates import ensure_certificate
from cli.cluster.ports import LOOPBACK, answers, free_port
from mlscope.bus.bus import Bus
from mlscope.settings import Settings
from services.gateway.access import connections
from services.gateway.service import serve
from tests.services.gateway.conftest import Running


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
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionResetError:
        return b""


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


async def test_a_connection_that_is_kept_serves_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    async with httpx.AsyncClient(base_url=running.url) as web:
        for _ in range(2):
            assert (await web.get("/healthz")).status_code == 200
            await asyncio.sleep(0.4)


async def test_one_address_leaves_room_for_others(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda: 8)
    held = [await opened(running, b"GET ") for _ in range(6)]
    reader, writer = await opened(running, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await ended(reader)).startswith(b"HTTP/1.1 503 ")
    writer.close()
    held[0][1].close()
    await asyncio.sleep(0.1)
    async with httpx.AsyncClient(base_url=running.url) as web:
        assert (await web.get("/healthz")).status_code == 200
    for _, other in held:
        other.close()


async def test_a_handshake_that_never_ends_is_dropped(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections count only after it: without a bound they take every file descriptor."""
    monkeypatch.setattr(connections, "HANDSHAKE_S", 0.2)
    certificate = ensure_certificate(tmp_path, LOOPBACK)
    port, stop = free_port(), asyncio.Event()
    settings = Settings(
        gateway_port=port,
        tls_certificate_file=certificate.certificate,
        tls_key_file=certificate.key,
    )
    serving = asyncio.create_task(serve(bus, settings, stop))
    async with asyncio.timeout(20):
        while not answers(port):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    assert await ended(reader) == b""
    writer.close()
    trust = ssl.create_default_context(cafile=certificate.authority)
    async with httpx.AsyncClient(verify=trust) as web:
        assert (await web.get(f"https://{LOOPBACK}:{port}/healthz")).status_code == 200
    stop.set()
    await serving


def test_as_many_files_as_connections_need_may_be_opened() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
        connections.raise_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(8192, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
