"""How soon refusals push every older line out of the broker's log, which is bounded (I/O)."""

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from cli.cluster.keys.person_files import ensure_person
from cli.cluster.ports import LOOPBACK
from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.nats.broker_socket import CHUNK_BYTES
from mlscope.bus.nats.dialing import dial
from mlscope.people import people_folder
from schemas.people import Asker

CONNECTIONS = 8
"""At once: as many as a viewer may have."""
BATCH = 100
"""Messages that a viewer sends before it reads what the broker says of them."""
LONG = 3900
"""Characters of a key or subject: a line of the protocol has 4,096 bytes at most."""
VIEWER = Asker("flooding-viewer", "viewer")

Refused = Callable[[NatsServer, threading.Event], None]
"""Has a broker refuse again and again until the event."""


@dataclass(frozen=True, slots=True)
class PushedOut:
    """What pushed the oldest line out of a log: bytes and number of refusals, and seconds."""

    bytes_each: float
    refusals: float
    took_s: float


def _refused_keys(key: str, server: NatsServer, is_over: threading.Event) -> None:
    """Connect with a `key` that nobody has."""
    login = {"nkey": key, "sig": "none", "verbose": False}
    message = b"CONNECT " + json.dumps(login).encode() + b"\r\n"
    while not is_over.is_set():
        with suppress(OSError), socket.create_connection((LOOPBACK, server.port), 5.0) as stranger:
            stranger.sendall(message)
            while stranger.recv(CHUNK_BYTES):
                pass


def _refused_messages(subject: str, server: NatsServer, is_over: threading.Event) -> None:
    """Publish on a `subject` that a viewer's key may not use."""
    seed = (people_folder(server.folder) / f"{VIEWER.name}.nk").read_text("ascii").strip()
    batch = f"PUB {subject} 0\r\n\r\n".encode() * BATCH + b"PING\r\n"
    connection, _ = dial(server.url, seed, "flood")
    with closing(connection):
        while not is_over.is_set():
            connection.sendall(batch)
            while b"PONG\r\n" not in connection.recv():
                pass


KINDS: Mapping[str, Refused] = MappingProxyType(
    {
        "wrong key": partial(_refused_keys, "U" * 56),
        "wrong key of 3,900 characters": partial(_refused_keys, "U" * LONG),
        "forbidden subject": partial(_refused_messages, "x"),
        "forbidden subject of 3,900 characters": partial(_refused_messages, "x" * LONG),
    }
)


def push_out(folder: Path, kind: str) -> PushedOut:
    """Start a broker in `folder` as `mlscope up` does, and have its log forget how it began.

    `kind` is one of `KINDS`; one process has the broker refuse over eight connections at once.
    """
    ensure_person(people_folder(folder), VIEWER)
    with NatsServer(folder) as server:
        logs, oldest = server.log.parent, server.log.stat().st_ino
        is_over, begun_s = threading.Event(), time.monotonic()
        threads = [
            threading.Thread(target=KINDS[kind], args=(server, is_over)) for _ in range(CONNECTIONS)
        ]
        for thread in threads:
            thread.start()
        while oldest in {path.stat().st_ino for path in logs.iterdir()}:
            time.sleep(0.01)
        took_s = time.monotonic() - begun_s
        is_over.set()
        for thread in threads:
            thread.join()
        text = b"".join(path.read_bytes() for path in logs.iterdir())
        bound_bytes = server.layout().max_log_bytes * server.layout().max_log_files
    bytes_each = len(text) / text.count(b" [ERR] ")
    return PushedOut(bytes_each, bound_bytes / bytes_each, took_s)
