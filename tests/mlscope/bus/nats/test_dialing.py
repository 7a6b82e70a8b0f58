"""An issuer's connection: to the first server that takes it, and over TLS."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

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
