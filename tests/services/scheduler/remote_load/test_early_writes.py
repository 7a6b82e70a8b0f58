"""Queries that are encrypted before they are due, as a server reads them."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.cluster.keys.certificates import Certificate, ensure_certificate
from cli.cluster.ports import LOOPBACK
from mlscope.bus.nats.broker_socket import BrokerSocket
from mlscope.bus.nats.dialing import trust
from services.scheduler.remote_load.early_writes import (
    AHEAD_NS,
    MOST_AHEAD,
    SPARE_NS,
    EarlyWrites,
    write_all,
)

PERIOD_NS = 1_000_000
PONG = b"PONG\r\n"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Return a server's certificate."""
    return ensure_certificate(tmp_path_factory.mktemp("tls"), LOOPBACK)


@contextmanager
def connected(certificate: Certificate) -> Iterator[tuple[BrokerSocket, ssl.SSLSocket]]:
    """Lend both ends of a connection over TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    ours, theirs = socket.socketpair()
    server = context.wrap_socket(theirs, server_side=True, do_handshake_on_connect=False)
    connection = BrokerSocket(ours)
    with closing(connection), server:
        agreeing = threading.Thread(target=server.do_handshake)
        agreeing.start()
        connection.start_tls(trust(certificate.authority), LOOPBACK)
        agreeing.join()
        yield connection, server


def read(server: ssl.SSLSocket, size: int) -> bytes:
    """Return so many bytes that a server reads, decrypted."""
    received = b""
    while len(received) < size:
        received += server.recv(size - len(received))
    return received


@given(st.lists(st.sampled_from(["prepare", "write", "ping"]), max_size=60))
def test_whatever_comes_between_a_server_reads_queries_in_order(
    certificate: Certificate, actions: list[str]
) -> None:
    bodies = [b"%d;" % query * 10 for query in range(60)]
    with connected(certificate) as (connection, server):
        writes = EarlyWrites(connection, bodies, np.arange(60, dtype=np.int64) * PERIOD_NS)
        for action in actions:
            if action == "prepare":
                writes.prepare(-AHEAD_NS // 2)
            else:
                (writes.write if action == "write" else writes.answer_ping)()
        # A ping is answered at the latest with the last query that was encrypted by then.
        written = min(60, actions.count("write") + MOST_AHEAD)
        for _ in range(written - actions.count("write")):
            writes.write()
        pings, queries = actions.count("ping"), b"".join(bodies[:written])
        plain = read(server, len(queries) + pings * len(PONG))
    assert (plain.count(PONG), plain.replace(PONG, b"")) == (pings, queries)


def encrypted(now_ns: int, times: int = 100) -> int:
    """Return how many of the queries due at 0, 1, … ms and after a second are encrypted at once."""
    ours, theirs = socket.socketpair()
    due_ns = np.array([0, PERIOD_NS, AHEAD_NS], np.int64)
    with closing(BrokerSocket(ours)) as connection, theirs:
        writes = EarlyWrites(connection, [b"a", b"b", b"c"], due_ns)
        for _ in range(times):
            writes.prepare(now_ns)
        return len(writes._encrypted)


def test_nothing_is_encrypted_when_a_query_is_due_or_long_before() -> None:
    assert encrypted(-SPARE_NS) == 0
    assert encrypted(-SPARE_NS - 1) == 2
    assert encrypted(-SPARE_NS - 1, times=1) == 1
    assert encrypted(-AHEAD_NS) == 0


def test_what_one_write_leaves_is_written_too() -> None:
    """A connection with a time limit takes only what its buffer has room for."""
    body = bytes(range(256)) * 4096
    ours, theirs = socket.socketpair()
    with closing(BrokerSocket(ours)) as connection, theirs:
        connection.settimeout(30)
        writer = threading.Thread(target=write_all, args=(connection, body))
        writer.start()
        received = bytearray()
        while len(received) < len(body) and (part := theirs.recv(1 << 16)):
            received += part
            theirs.settimeout(5)
        writer.join()
    assert received == body


def test_a_record_that_comes_in_pieces_is_read_whole(certificate: Certificate) -> None:
    body = bytes(range(256)) * 256
    with connected(certificate) as (connection, server):
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        sending = threading.Thread(target=server.sendall, args=(body,))
        sending.start()
        received = b""
        while len(received) < len(body):
            received += connection.decrypt(connection.raw.recv(1000))
        sending.join()
        connection.sendall(body)
        assert received == read(server, len(body)) == body
