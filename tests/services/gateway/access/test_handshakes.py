"""Handshakes of TLS that are too slow or too many end, and others are served beside them."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx
import pytest
import uvloop

from cli.cluster.keys.certificates import Certificate, ensure_certificate
from cli.cluster.ports import LOOPBACK, answers, free_port
from mlscope.bus.bus import Bus
from mlscope.listening import listen
from mlscope.settings import Settings
from services.gateway.access import handshakes
from services.gateway.access.handshakes import Handshakes
from services.gateway.service import serve


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    """Return a certificate of the loopback."""
    return ensure_certificate(tmp_path, LOOPBACK)


@dataclass
class Secured:
    """A gateway that serves TLS: its port, whom to trust, and what stops it."""

    port: int
    trust: ssl.SSLContext
    stop: asyncio.Event
    serving: "asyncio.Task[None]"

    async def is_served(self) -> bool:
        """Tell whether a client that begins its handshake at once is answered."""
        async with httpx.AsyncClient(verify=self.trust) as web:
            return (await web.get(f"https://{LOOPBACK}:{self.port}/healthz")).status_code == 200


@pytest.fixture
async def secured(bus: Bus, certificate: Certificate) -> AsyncIterator[Secured]:
    """Lend a gateway that serves TLS."""
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
    yield Secured(port, ssl.create_default_context(cafile=certificate.authority), stop, serving)
    stop.set()
    await serving


class Silent:
    """Connections that never send a byte."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._made: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._made:
            each.close()

    def connect(self, address: str, count: int) -> None:
        """Make `count` connections from an `address`."""
        for _ in range(count):
            made = socket.create_connection((LOOPBACK, self._port), 10, (address, 0))
            made.setblocking(False)
            self._made.append(made)

    async def are_open(self, expected: int) -> list[bool]:
        """Tell of each whether it is open, within seconds that as many as `expected` are."""
        await asyncio.sleep(0.05)
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                while sum(map(_is_open, self._made)) != expected:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        return [_is_open(each) for each in self._made]


def _is_open(client: socket.socket) -> bool:
    try:
        client.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


async def test_who_never_begins_a_handshake_makes_room(secured: Secured) -> None:
    """Each costs half a megabyte, and none needs a token."""
    with Silent(secured.port) as silent:
        silent.connect("127.0.0.2", 70)
        assert await silent.are_open(64) == [False] * 6 + [True] * 64
        for last in (3, 4, 5):
            silent.connect(f"127.0.0.{last}", 64)
        assert await silent.are_open(256) == [False] * 6 + [True] * 256
        assert await secured.is_served()
        silent.connect("127.0.0.6", 3)
        are_open = await silent.are_open(256)
        assert are_open.count(True) == 256
        assert all(are_open[6 + 4 :])


async def test_a_handshake_that_never_ends_is_dropped(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKE_S", 0.2)
    reader, writer = await asyncio.open_connection(LOOPBACK, secured.port)
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()
    assert await secured.is_served()


async def test_a_large_body_is_refused_within_tls(secured: Secured) -> None:
    async with httpx.AsyncClient(verify=secured.trust) as web:
        address = f"https://{LOOPBACK}:{secured.port}/api/files?name=a.onnx"
        refused = await web.post(address, content=bytes(4_000_000))
    assert refused.status_code == 415


async def test_a_gateway_that_stops_waits_for_no_handshake(secured: Secured) -> None:
    with Silent(secured.port) as silent:
        silent.connect(LOOPBACK, 3)
        assert await silent.are_open(3) == [True] * 3
        secured.stop.set()
        async with asyncio.timeout(5):
            await secured.serving
        assert await silent.are_open(0) == [False] * 3


class _Echo(asyncio.Protocol):
    """Send back what comes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


async def _refuse_and_echo(certificate: Certificate) -> None:
    """Serve a client after others that speak no TLS, trust nobody, or leave."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certificate, certificate.key)
    listener = listen(LOOPBACK, 0)
    port = listener.getsockname()[1]
    server = Handshakes(listener, context, _Echo)
    for sent in (b"GET / HTTP/1.1\r\n\r\n", b"", b"\x16\x03\x01"):
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(sent)
        writer.write_eof()
        async with asyncio.timeout(10):
            await reader.read()
        writer.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(LOOPBACK, port, ssl=ssl.create_default_context())
    trust = ssl.create_default_context(cafile=certificate.authority)
    reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=trust)
    with Silent(port) as silent:
        for crowd in (0, 65):
            silent.connect(LOOPBACK, crowd)
            assert (await silent.are_open(min(crowd, 64))).count(True) == min(crowd, 64)
            writer.write(b"echo")
            async with asyncio.timeout(10):
                assert await reader.readexactly(4) == b"echo"
        writer.close()
        await writer.wait_closed()
        await server.close()
        listener.close()
        assert await silent.are_open(0) == [False] * 65
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(LOOPBACK, port)


@pytest.mark.parametrize("event_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_handshake_that_fails_logs_nothing_and_leaves_nothing(
    event_loop: Callable[[], asyncio.AbstractEventLoop],
    certificate: Certificate,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING), asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(_refuse_and_echo(certificate))
    assert not caplog.records


async def test_without_free_descriptors_it_accepts_again_later(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener that stays readable would otherwise take all of a core."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certificate, certificate.key)
    monkeypatch.setattr(handshakes, "_RETRY_S", 0.1)
    tries = 0

    class Full(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise OSError(24, "Too many open files")
            return super().accept()

    listener = Full()
    listener.bind((LOOPBACK, 0))
    listener.listen()
    server = Handshakes(listener, context, _Echo)
    trust = ssl.create_default_context(cafile=certificate.authority)
    port = listener.getsockname()[1]
    began_s = asyncio.get_running_loop().time()
    _, writer = await asyncio.open_connection(LOOPBACK, port, ssl=trust)
    assert asyncio.get_running_loop().time() - began_s > 0.15
    writer.close()
    await server.close()
    listener.close()
