"""A port of metrics answers scrapes, whatever else connects to it, with few threads."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.request import urlopen

import pytest

from mlscope.metrics import exposition, port_server
from mlscope.metrics.port_server import GRACE_S, MOST_CONNECTIONS
from mlscope.metrics.standing import Standing
from tests.flow.clusters import until

SCRAPE_WITHIN_S = 8.0
"""Prometheus gives a scrape 10 s."""


def nothing() -> Standing:
    return Standing([])


@pytest.fixture
def port() -> Iterator[int]:
    """Lend a port that answers with an empty standing."""
    with ExitStack() as stack:
        yield opened(stack, nothing)


def opened(stack: ExitStack, ask: Callable[[], Standing]) -> int:
    """Open a port of metrics until `stack` ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    stack.callback(exposition.open_port("127.0.0.1", port, ask))
    return port


def connected(stack: ExitStack, port: int, count: int) -> list[socket.socket]:
    """Hold `count` connections that say nothing."""
    return [
        stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20.0))
        for _ in range(count)
    ]


def scrape(port: int) -> int:
    """Read the metrics as Prometheus does, and return the status."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SCRAPE_WITHIN_S) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        status: int = answer.status
        return status


def is_closed(connection: socket.socket) -> bool:
    """Wait for what the port says; tell whether it closed without a word."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_scrape_is_answered_while_idle_connections_are_held(port: int) -> None:
    before = threading.active_count()
    with ExitStack() as stack:
        idle = connected(stack, port, 50)
        assert scrape(port) == 200
        assert threading.active_count() - before <= MOST_CONNECTIONS
        assert is_closed(idle[0]), "the oldest makes room"
    until(lambda: threading.active_count() == before)


def test_a_connection_that_sends_byte_for_byte_is_closed_in_time(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_server, "CONNECTION_S", 0.3)
    with ExitStack() as stack:
        (slow,) = connected(stack, port, 1)
        slow.settimeout(0.05)
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline:
            try:
                slow.sendall(b"G")
                if slow.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    pytest.fail("it was never closed")


def test_requests_that_wait_for_the_service_take_no_more_threads() -> None:
    answers = threading.Event()

    def late() -> Standing:
        answers.wait(20.0)
        return Standing([])

    before = threading.active_count()
    with ExitStack() as stack:
        port = opened(stack, late)
        for connection in connected(stack, port, 3 * MOST_CONNECTIONS):
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        time.sleep(3 * GRACE_S)
        assert threading.active_count() - before <= MOST_CONNECTIONS + 1
        answers.set()
        assert scrape(port) == 200


def test_a_port_closes_at_once_though_its_service_does_not_answer() -> None:
    """The loop that would answer is the one that closes it."""
    closing = threading.Event()

    def late() -> Standing:
        closing.wait(20.0)
        return Standing([])

    with ExitStack() as requests:
        with ExitStack() as stack:
            port = opened(stack, late)
            for connection in connected(requests, port, 3 * MOST_CONNECTIONS):
                connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            time.sleep(3 * GRACE_S)
            begun = time.monotonic()
        assert time.monotonic() - begun < 5.0
        closing.set()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port))


def test_a_connection_that_is_cut_is_not_written_into_the_log(
    port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", port)) as cut:
        cut.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        cut.sendall(b"G")
    assert scrape(port) == 200
    assert capfd.readouterr() == ("", "")


def test_a_port_that_is_in_use_is_an_error(port: int) -> None:
    with pytest.raises(OSError, match="in use"):
        exposition.open_port("127.0.0.1", port, nothing)
