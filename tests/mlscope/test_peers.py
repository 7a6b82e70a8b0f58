"""A broker on loopback is the one of the user who runs the cluster, or gets no login."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from cli.cluster.ports import LOOPBACK
from mlscope.bus.errors import Unreachable
from mlscope.bus.nats.connection import Connection
from mlscope.bus.nats.dialing import dial
from mlscope.peers import expect_user, foreign_user, owner_of
from tests.contracts.worlds import OpenSettings

NOBODY = 65534
FALSE_BROKER = """
import os, socket, sys
if len(sys.argv) > 2:
    os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.create_server((sys.argv[1], 0), family=family, dualstack_ipv6=sys.argv[1] == "::") as s:
    print(s.getsockname()[1], flush=True)
    while True:
        client, _ = s.accept()
        client.sendall(b'INFO {"version":"2.15.1","max_payload":1024,"headers":true}\\r\\n')
        print(client.recv(4096), flush=True)
        client.close()
"""


@contextmanager
def answering(host: str = LOOPBACK, *user: int) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run a false broker as a `user`, ours by default; lend its port and its process."""
    command = [sys.executable, "-I", "-c", FALSE_BROKER, host, *map(str, user)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run another user's program")
async def test_another_user_s_broker_gets_no_login() -> None:
    with answering(LOOPBACK, NOBODY) as (port, broker):
        settings = OpenSettings(f"nats://{LOOPBACK}:{port}", broker_uid=os.getuid())
        connection = Connection(settings, "scheduler")
        with pytest.raises(Unreachable, match=f"another user of this machine .uid {NOBODY}."):
            await connection.open(1.0)
        with pytest.raises(ConnectionRefusedError, match=f"uid {NOBODY}"):
            await asyncio.to_thread(dial, settings.nats_url, None, "issuer", broker_uid=os.getuid())
        assert broker.stdout is not None
        assert await asyncio.to_thread(broker.stdout.readline) == "b''\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run another user's program")
@pytest.mark.parametrize(
    ("server", "client"), [(LOOPBACK, LOOPBACK), ("::1", "::1"), ("::", LOOPBACK)]
)
def test_the_kernel_says_who_answers(server: str, client: str) -> None:
    with answering(server, NOBODY) as (port, _), socket.create_connection((client, port)) as ours:
        assert ours.recv(4) == b"INFO"
        ends = ours.getsockname()[:2], ours.getpeername()[:2]
        assert foreign_user(*ends, expected=os.getuid()) == NOBODY
        assert foreign_user(*ends, expected=NOBODY) is None
        assert foreign_user(*ends, expected=None) is None


async def test_a_broker_of_the_expected_user_is_asked() -> None:
    with answering() as (port, broker):
        settings = OpenSettings(f"nats://{LOOPBACK}:{port}", broker_uid=os.getuid())
        connection = Connection(settings, "scheduler")
        with suppress(Unreachable):
            await connection.open(1.0)
        await connection.close()
        assert broker.stdout is not None
        assert "CONNECT" in await asyncio.to_thread(broker.stdout.readline)


def test_a_connection_that_the_kernel_does_not_list_is_no_obstacle() -> None:
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        assert foreign_user((LOOPBACK, 1), (LOOPBACK, 2), expected=0) is None
    assert foreign_user(("192.0.2.1", 4222), ("192.0.2.2", 1), expected=0) is None


def test_a_plain_socket_is_checked_too() -> None:
    with answering() as (port, _), socket.create_connection((LOOPBACK, port)) as ours:
        ours.recv(4)
        expect_user(ours, os.getuid())


def test_a_socket_that_is_closed_is_nobody_s() -> None:
    """The kernel would list it as root's, and whoever sends and hangs up would pass for root."""
    with socket.create_server((LOOPBACK, 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            accepted, _ = server.accept()
            ends = client.getsockname()[:2], client.getpeername()[:2]
            assert owner_of(*ends) == os.getuid()
        with accepted:
            assert owner_of(*ends) is None
