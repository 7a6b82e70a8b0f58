"""An issuer's connection: to the first server that takes it, and over TLS."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cli.cluster.keys.certificates import ensure_certificate
from cli.cluster.ports import LOOPBACK, free_port
from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.inboxes import inbox_prefix
from mlscope.bus.nats.broker_socket import BrokerSocket
from mlscope.bus.nats.dialing import ClientRefused, dial
from mlscope.bus.nats.wire import PING
from services.scheduler.remote_load.continuation import Continuation
from services.scheduler.remote_load.processes import BrokerAddress, issue_load
from tests.places import lent_folder
from tests.services.scheduler.remote_load.test_processes import a_load, an_order, answering, well


@pytest.fixture(scope="module")
def tls_server() -> Iterator[NatsServer]:
    """Run a server that takes connections over TLS alone."""
    with lent_folder("tls") as folder:
        certificate = ensure_certificate(folder, LOOPBACK)
        with NatsServer(folder, certificate=certificate) as server:
            yield server


def authority(server: NatsServer) -> Path:
    """Return what a client must trust."""
    return server.folder / "authority.pem"


def pong(connection: BrokerSocket) -> bytes:
    """Return what a server says to a ping."""
    connection.sendall(PING)
    return connection.recv()


def test_the_first_server_that_answers_is_used(nats_server: NatsServer) -> None:
    urls = f"nats://127.0.0.1:{free_port()}, {nats_server.url}"
    connection, _ = dial(urls, nats_server.seeds["scheduler"], "issuer")
    with closing(connection):
        assert pong(connection) == b"PONG\r\n"


def test_no_server_at_all_is_said_of_each() -> None:
    ports = [free_port(), free_port()]
    urls = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
    with pytest.raises(ConnectionRefusedError) as raised:
        dial(urls, None, "issuer")
    assert all(f"127.0.0.1:{port}: " in str(raised.value) for port in ports)
    assert not isinstance(raised.value, ClientRefused)


def test_a_key_nobody_knows_is_refused_by_the_server(nats_server: NatsServer) -> None:
    with pytest.raises(ClientRefused, match="Authorization Violation"):
        dial(f"nats://127.0.0.1:{free_port()},{nats_server.url}", None, "issuer")


def test_no_secret_goes_to_a_server_without_tls(nats_server: NatsServer) -> None:
    with pytest.raises(ConnectionRefusedError, match="does not use TLS"):
        dial(nats_server.url.replace("nats:", "tls:"), nats_server.seeds["scheduler"], "issuer")


@contextmanager
def speaking_first(words: Sequence[bytes]) -> Iterator[str]:
    """Run a server that says `words`, a little apart, before it reads; yield its URL."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for word in words:
                connection.sendall(word)
                time.sleep(0.1)
            connection.recv(4096)
            connection.sendall(b"PONG\r\n")
            connection.recv(1)

    with socket.create_server((LOOPBACK, 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"nats://{LOOPBACK}:{listener.getsockname()[1]}"
    thread.join()


def test_a_greeting_in_two_parts_is_read() -> None:
    with speaking_first((b'INFO {"version":"2.1', b'5.1"}\r\n')) as url:
        connection, _ = dial(url, None, "health", timeout_s=5.0)
        connection.close()


@contextmanager
def adding_in_plain_text(server: NatsServer, words: bytes) -> Iterator[str]:
    """Relay one connection to a `server` over TLS, and put `words` behind its greeting."""

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while received := source.recv(65536):
                target.sendall(received)
            target.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        client, _ = listener.accept()
        address = urlsplit(server.url)
        behind = socket.create_connection((address.hostname, address.port))
        with client, behind:
            client.sendall(behind.recv(4096) + words)
            onward = threading.Thread(target=pass_on, args=(client, behind))
            onward.start()
            pass_on(behind, client)
            onward.join()

    with socket.create_server((LOOPBACK, 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"tls://{LOOPBACK}:{listener.getsockname()[1]}"
    thread.join()


def test_what_came_before_tls_is_not_the_server_s(tls_server: NatsServer) -> None:
    """Whoever is between the two could answer in its place."""
    seed = tls_server.seeds["scheduler"]
    forged = b"PONG\r\nMSG _INBOX_scheduler.1 1 2\r\nok\r\n"
    with adding_in_plain_text(tls_server, forged) as url:
        connection, parser = dial(url, seed, "issuer", authority(tls_server), timeout_s=10.0)
        with closing(connection):
            connection.sendall(PING)
            kinds = {frame.kind for frame in parser.feed(connection.recv())}
    assert kinds <= {"INFO", "PONG"}


def test_a_certificate_nobody_trusts_is_refused(tls_server: NatsServer) -> None:
    with pytest.raises(ConnectionRefusedError, match="CERTIFICATE_VERIFY_FAILED"):
        dial(tls_server.url, tls_server.seeds["scheduler"], "issuer")


async def test_a_load_is_issued_over_tls_beside_a_dead_server(tls_server: NatsServer) -> None:
    urls = f"nats://127.0.0.1:{free_port()},{tls_server.url}"
    where = BrokerAddress(
        urls, tls_server.seeds["scheduler"], inbox_prefix("scheduler"), authority(tls_server)
    )
    async with answering(tls_server, well, str(authority(tls_server))), asyncio.timeout(60):
        issued = await issue_load(where, an_order(), "b2", Continuation.once(a_load(50)), 5.0)
    assert (issued.queries, issued.failed, issued.lost) == (50, 0, 0)


def test_an_issuer_starts_without_the_asynchronous_client() -> None:
    program = (
        "import sys\n"
        "from mlscope.bus.nats import dial\n"
        "print(sorted({'asyncio', 'nats', 'pydantic', 'schemas'} & set(sys.modules)))\n"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert loaded == "[]\n"
