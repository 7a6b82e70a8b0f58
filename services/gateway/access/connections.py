"""HTTP connections within bounds: how many, and how long a request's head and body may take.

uvicorn bounds neither: a head that comes a byte at a time holds its connection for ever, and enough
of them take every file descriptor, so that nobody else is served.
"""

import asyncio
import logging
import resource
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Any

import h11
from starlette.types import Scope
from uvicorn import Config
from uvicorn.server import ServerState

from services.gateway.access.pulled_bodies import PullingProtocol

HEAD_S = 10.0
"""The longest a request's head may take, from its connection or its first byte."""

BODY_IDLE_S = 30.0
"""The longest pause within a request's body."""

_KEEP = "keep_connection"
_MAX_CONNECTIONS = 4096
_log = logging.getLogger(__name__)
_BUSY = b"too many connections; try again later\n"
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_BUSY), _BUSY)
)


def keep(scope: Scope) -> None:
    """Keep the connection of a request, whose client has shown a token, whoever else connects."""
    kept = scope.get("state", {}).get(_KEEP)
    if kept is not None:
        kept()


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


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who is connected to a server.

    `strangers`: the connections on which nobody has shown a token, the oldest first; `known`: how
    many of each address are the others.
    """

    strangers: "OrderedDict[BoundedProtocol, None]" = field(default_factory=OrderedDict)
    known: Counter[str] = field(default_factory=Counter)


class BoundedProtocol(PullingProtocol):
    """The protocol of one connection, which ends when it is one too many or too slow.

    Where there are too many, the oldest without a token makes room: who has none keeps nobody out,
    since a request comes right after its connection, and the users of a machine share an address.
    With tokens, one address may hold three quarters of all, so that others are served beside it.
    """

    _deadline: asyncio.TimerHandle | None = None
    _awaited: object = None
    _address = ""
    _is_known = False

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], crowd: Crowd
    ) -> None:
        """Prepare a connection beside those of the `crowd`.

        `config`, `server_state` and `app_state` are uvicorn's.
        """
        super().__init__(config, server_state, {**app_state, _KEEP: self._keep})
        self._crowd = crowd

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or refuse it as one too many."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        strangers, known = self._crowd.strangers, self._crowd.known[self._address]
        limit, beside = max_connections(), len(self.connections) - 1
        if known >= limit * 3 // 4 or (beside >= limit and not strangers):
            _log.warning("connection refused: %d open, %d of %s", beside, known, self._address)
            transport.write(_REFUSAL)
            transport.close()
            return
        if beside >= limit:
            oldest, _ = strangers.popitem(last=False)
            oldest.transport.abort()
        strangers[self] = None
        self._wait()

    def _keep(self) -> None:
        """Count this connection, unless it has made room, as one whose client has a token."""
        if self in self._crowd.strangers:
            del self._crowd.strangers[self]
            self._crowd.known[self._address] += 1
            self._is_known = True

    def data_received(self, data: bytes) -> None:
        """Read what arrived; what is still awaited has a deadline."""
        super().data_received(data)
        self._wait()

    def read_on(self) -> None:
        """Read the next part of the body; what is awaited then has a deadline of its own."""
        super().read_on()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and its deadline."""
        self._cancel()
        self._crowd.strangers.pop(self, None)
        if self._is_known:
            self._crowd.known[self._address] -= 1
            if not self._crowd.known[self._address]:
                del self._crowd.known[self._address]
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Set the deadline of what the client has yet to send.

        A head has one for the whole of it, a body one for each pause.
        """
        awaited = self.conn.their_state
        if awaited is h11.IDLE and self._awaited is awaited:
            return
        self._cancel()
        limit_s = {h11.IDLE: HEAD_S, h11.SEND_BODY: BODY_IDLE_S}.get(awaited)
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
