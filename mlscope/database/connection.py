"""One connection to PostgreSQL: opened when needed, reopened after a loss, used by one thread.

Blocking: services call it in threads, which may outlive their callers. So `close` does not close
the connection during a transaction: the transaction ends first, then the connection closes.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

_CLOSE_S = 2.0

BEYOND_LIMITS = (
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
    psycopg.errors.TooManyArguments,
    psycopg.errors.TooManyColumns,
)
"""Errors of values that no PostgreSQL takes: too deep, too long. For psycopg they are
OperationalErrors, like a server that is away, but to wait and repeat does not help."""

T = TypeVar("T")


class Database:
    """A connection to the database at `address`; the waits for a silent server are bounded."""

    def __init__(self, address: str) -> None:
        """Take a conninfo string or URL; its own time-outs override the defaults."""
        bounds = {"connect_timeout": 10, "keepalives_idle": 10, "tcp_user_timeout": 30_000}
        self._address = make_conninfo("", **(bounds | conninfo_to_dict(address)))
        self._turn = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._is_closed = False

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a transaction, connecting when needed. Raises psycopg's errors."""
        with self._turn:
            try:
                if self._connection is None:
                    self._connection = psycopg.connect(self._address)
                with self._connection.transaction():
                    yield self._connection
            finally:
                if self._is_closed or (self._connection and self._connection.closed):
                    self._drop()

    def read(self, act: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Run `act`, which only reads, in a transaction and return its result.

        If an open connection turns out to be dead, as after a restart of the server, `act` is
        retried on a new one. Raises psycopg's errors.
        """
        was_kept = self._connection is not None
        try:
            with self.transaction() as session:
                return act(session)
        except psycopg.OperationalError:
            if not was_kept or self._connection is not None:
                raise
        with self.transaction() as session:
            return act(session)

    def close(self) -> None:
        """Close after the current transaction; a long transaction closes the connection itself."""
        self._is_closed = True
        if self._turn.acquire(timeout=_CLOSE_S):
            try:
                self._drop()
            finally:
                self._turn.release()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
