"""A person who sends the broker as much as it takes, from a process of its own."""

import multiprocessing
import select
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized

from mlscope.bus.nats.broker_socket import BrokerSocket
from mlscope.bus.nats.dialing import dial
from mlscope.bus.nats.wire import PONG, Parser, publication

_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Flood:
    """Messages of `message_bytes` on one `subject` over some `connections`, by a `person`."""

    name: str
    person: str
    subject: str
    message_bytes: int
    connections: int


@contextmanager
def sending(flood: Flood, url: str, seed: str) -> Iterator["Synchronized[int]"]:
    """Flood the broker at `url` with the key of this `seed` for the length of a block.

    Lends the count of the messages that were sent.
    """
    spawning = multiprocessing.get_context("spawn")
    sent = spawning.Value("q")
    process = spawning.Process(target=_send_all, args=(flood, url, seed, sent), daemon=True)
    process.start()
    try:
        yield sent
    finally:
        process.terminate()
        process.join()


def _send_all(flood: Flood, url: str, seed: str, sent: "Synchronized[int]") -> None:
    message = publication(flood.subject, "", bytes(flood.message_bytes))
    for _ in range(flood.connections):
        threading.Thread(target=_send, args=(url, seed, message, sent)).start()


def _send(url: str, seed: str, message: bytes, sent: "Synchronized[int]") -> None:
    """Send one message again and again, over one connection after the other."""
    while True:
        try:
            connection, parser = dial(url, seed, "flood")
            with closing(connection):
                while True:
                    connection.sendall(message)
                    with sent.get_lock():
                        sent.value += 1
                    _hear(connection, parser)
        except OSError:
            time.sleep(_PAUSE_S)


def _hear(connection: BrokerSocket, parser: Parser) -> None:
    """Read what the broker has said so far: it ends a connection that answers no PING."""
    while select.select([connection], [], [], 0)[0]:
        received = connection.recv()
        if not received:
            raise ConnectionResetError("the broker closed the connection")
        for frame in parser.feed(received):
            if frame.kind == "PING":
                connection.sendall(PONG)
