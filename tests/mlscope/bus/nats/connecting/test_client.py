"""nats-py's client with one method of its own replaced: it must still be there, and do its work."""

import asyncio
import gc
import inspect
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nats.aio.client import Client

from cli.cluster.keys.certificates import ensure_certificate
from cli.cluster.ports import LOOPBACK
from mlscope.bus.errors import Unreachable
from mlscope.bus.nats.connecting.client import TidyClient
from mlscope.bus.nats.connection import Connection
from tests.contracts.worlds import OpenSettings

GREETING = b'INFO {"version":"2.12.0","max_payload":1024,"headers":true,"tls_required":true}\r\n'
PONG, REFUSAL = b"PONG\r\n", b"-ERR 'Authorization Violation'\r\n"


@pytest.mark.parametrize(
    ("replaced", "caller"),
    [
        ("_connect_to_server", "_select_next_server"),
        ("_process_info", "_process_connect_init"),
    ],
)
def test_what_is_replaced_is_still_what_nats_py_calls(replaced: str, caller: str) -> None:
    assert f"self.{replaced}(" in inspect.getsource(getattr(Client, caller))
    ours, theirs = (inspect.signature(getattr(kind, replaced)) for kind in (TidyClient, Client))
    assert ours.parameters.keys() == theirs.parameters.keys()


@pytest.mark.parametrize("offer", [b"", b',"tls_available":true', b',"tls_required":false'])
async def test_a_connection_over_tls_never_becomes_plain(tmp_path: Path, offer: bytes) -> None:
    """Whoever is between a client and its broker writes the greeting, which is not encrypted."""
    received = bytearray()

    async def be_between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"version":"2.15.1","max_payload":1024,"headers":true%s}\r\n' % offer)
        received.extend(await reader.read(4096))
        writer.close()

    certificate = ensure_certificate(tmp_path, LOOPBACK)
    async with await asyncio.start_server(be_between, LOOPBACK, 0) as server:
        port = server.sockets[0].getsockname()[1]
        settings = OpenSettings(
            f"tls://{LOOPBACK}:{port}", tls_authority_file=certificate.authority
        )
        connection = Connection(settings, "requester")
        with pytest.raises(Unreachable, match="does not use TLS"):
            await connection.open(1.0)
    assert bytes(received) == b""


def greet(listener: socket.socket, context: ssl.SSLContext, answer: bytes) -> ssl.SSLSocket:
    """Return the next client, which got this answer to its first ping."""
    plain, _ = listener.accept()
    plain.sendall(GREETING)
    client = context.wrap_socket(plain, server_side=True)
    while b"PING" not in client.recv(4096):
        pass
    client.sendall(answer)
    return client


def serve(listener: socket.socket, context: ssl.SSLContext, has_third: threading.Event) -> None:
    """Hang up on one client, refuse the next and hear no more of it, and keep the third."""
    greet(listener, context, PONG).close()
    with greet(listener, context, REFUSAL), greet(listener, context, PONG) as third:
        has_third.set()
        while received := third.recv(4096):
            third.sendall(received.count(b"PING") * PONG)


@contextmanager
def deaf_broker(folder: Path) -> Iterator[tuple[OpenSettings, threading.Event]]:
    """Run such a broker over TLS; lend what leads to it, and what is set once it has the third."""
    certificate = ensure_certificate(folder, LOOPBACK)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    has_third = threading.Event()
    with socket.create_server((LOOPBACK, 0)) as listener:
        listener.settimeout(30.0)
        serving = threading.Thread(target=serve, args=(listener, context, has_third))
        serving.start()
        url = f"tls://{LOOPBACK}:{listener.getsockname()[1]}"
        yield OpenSettings(url, tls_authority_file=certificate.authority), has_third
        serving.join()


async def test_a_refused_connection_is_closed_though_the_broker_does_not_end_it(
    tmp_path: Path,
) -> None:
    with (
        warnings.catch_warnings(record=True) as warned,
        deaf_broker(tmp_path) as (settings, has_third),
    ):
        warnings.simplefilter("always")
        connection = Connection(settings, "tester", patience_s=20.0)
        await connection.open(10.0)
        assert await asyncio.to_thread(has_third.wait, 20.0)
        gc.collect()
        await connection.close()
    assert [str(each.message) for each in warned if "unclosed" in str(each.message)] == []
