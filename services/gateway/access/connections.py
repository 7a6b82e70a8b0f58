"""HTTP connections within bounds: how many, and how long a request's head and body may take.

uvicorn bounds neither: a head that comes a byte at a time holds its connection for ever, and enough
of them take every file descriptor, so that nobody else is served.
"""

import asyncio
import logging
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""The longest a request's head may take, from its connection or its first byte."""

BODY_IDLE_S = 30.0
"""The longest pause within a request's body."""

REST_S = 10.0
"""The longest that the rest of a body may take once its request is answered."""

HANDSHAKE_S = 10.0
"""The longest a handshake of TLS may take; its connection counts only afterwards."""

_REST = "rest"
_MAX_CONNECTIONS = 4096
_log = logging.getLogger(__name__)
_BUSY = b"too many connections; try again later\n"
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_BUSY), _BUSY)
)


def max_connections() -> int:
    """Return how many connections may be open: half of what the process may open as files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(_MAX_CONNECTIONS, soft // 2) if soft > 0 else _MAX_CONNECTIONS


def raise_file_limit() -> None:
    """Let this process open as many files as the most connections need, if the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = 2 * _MAX_CONNECTIONS if hard < 0 else min(2 * _MAX_CONNECTIONS, hard)
    if 0 <= soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol of one connection, which ends when it is one too many or too slow.

    One address may hold three quarters of all connections, so that others are served beside it.
    """

    _deadline: asyncio.TimerHandle | None = None
    _awaited: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or refuse it as one too many."""
        super().connection_made(transport)
        limit = max_connections()
        address = self.client[0] if self.client else ""
        beside = [
            getattr(connection, "client", None)
            for connection in self.connections
            if connection is not self
        ]
        of_address = sum(1 for client in beside if client and client[0] == address)
        if len(beside) >= limit or of_address >= limit * 3 // 4:
            _log.warning(
                "connection refused: %d open, %d from %s", len(beside), of_address, address
            )
            transport.write(_REFUSAL)
            transport.close()
            return
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Read what arrived; what is still awaited has a deadline."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline with the connection."""
        self._cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Set the deadline of what the client has yet to send.

        A head has one for the whole of it, a body one for each pause, and what is left of a body
        once its request is answered one for the whole of it.
        """
        awaited: object = self.conn.their_state
        if awaited is h11.SEND_BODY and self.cycle is not None and self.cycle.response_complete:
            awaited = _REST
        if awaited in (h11.IDLE, _REST) and self._awaited is awaited:
            return
        self._cancel()
        limit_s = {h11.IDLE: HEAD_S, h11.SEND_BODY: BODY_IDLE_S, _REST: REST_S}.get(awaited)
        if limit_s is not None and not self.transport.is_closing():
            self._awaited = awaited
            self._deadline = self.loop.call_later(limit_s, self._expired)

    def _cancel(self) -> None:
        self._awaited = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expired(self) -> None:
        """End a connection that is too slow, unless the gateway itself has yet to read."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self._awaited is h11.SEND_BODY and is_answering and self.flow.read_paused:
            self._cancel()
            self._wait()
        else:
            self.transport.abort()
