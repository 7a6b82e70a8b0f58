"""Writes a load's queries on time, each encrypted before it is due (I/O).

Encryption in the moment at which a query is due makes that query late, and the next one as well.
"""

import threading
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mlscope.bus.nats import PONG, BrokerSocket

MOST_AHEAD = 8
"""Queries that are encrypted and not yet due: enough for a burst."""

AHEAD_NS = 1_000_000_000
"""A query that is due later is not encrypted yet: the answer to a ping is sent after it."""

SPARE_NS = 40_000
"""Time before the next query is due in which no other is encrypted, which takes about 10 us."""


class EarlyWrites:
    """A load's publications, written in order by one thread; another answers the server's pings."""

    def __init__(
        self, connection: BrokerSocket, publications: Sequence[bytes], due_ns: NDArray[np.int64]
    ) -> None:
        """Take the `connection`, each query's bytes (`publications`), and when it is due.

        `due_ns` is int64 [queries], on the load's clock.
        """
        self.connection = connection
        self._publications, self._due_ns = publications, due_ns.data
        self._encrypted: deque[bytes] = deque()
        self._next = 0
        self._lock = threading.Lock()

    def prepare(self, now_ns: int) -> None:
        """Encrypt a further query unless one is due at once; `now_ns` is on the load's clock."""
        following = self._next
        if following == len(self._publications) or len(self._encrypted) == MOST_AHEAD:
            return
        first_due_ns = self._due_ns[following - len(self._encrypted)]
        if first_due_ns - now_ns > SPARE_NS and self._due_ns[following] - now_ns < AHEAD_NS:
            with self._lock:
                self._encrypt_next()

    def write(self) -> None:
        """Write the next query."""
        with self._lock:
            if not self._encrypted:
                self._encrypt_next()
            write_all(self.connection, self._encrypted.popleft())

    def decrypt(self, received: bytes) -> bytes:
        """Return what bytes received on the raw socket say."""
        with self._lock:
            return self.connection.decrypt(received)

    def answer_ping(self) -> None:
        """Answer the server's ping: with the last query that is encrypted already, or at once."""
        with self._lock:
            pong = self.connection.encrypt(PONG)
            if self._encrypted:
                self._encrypted[-1] += pong
            else:
                self.connection.raw.sendall(pong)

    def _encrypt_next(self) -> None:
        self._encrypted.append(self.connection.encrypt(self._publications[self._next]))
        self._next += 1


def write_all(connection: BrokerSocket, encrypted: bytes) -> None:
    """Write bytes as `sendall` does; one write of a blocking socket takes all, but for a signal."""
    if (written := connection.raw.send(encrypted)) < len(encrypted):
        connection.raw.sendall(memoryview(encrypted)[written:])
