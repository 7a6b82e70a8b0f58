"""Whether a connection has a server now, and the callers that wait for one."""

import asyncio
from collections.abc import Callable

from mlscope.bus.errors import Unreachable


class Availability:
    """The state of one connection: a server is connected, is away, or the connection is closed."""

    def __init__(self, server: str) -> None:
        """Begin without a server. Errors name `server`, which must hold no secrets."""
        self.closed = asyncio.Event()
        self.connected_s = 0.0
        """When the last reconnect was, by the loop's clock; 0 before the first."""
        self._server = server
        self._up = asyncio.Event()
        self._on_reconnect: set[Callable[[], None]] = set()

    @property
    def is_up(self) -> bool:
        """Whether a server is connected now."""
        return self._up.is_set() and not self.closed.is_set()

    async def wait_up(self, timeout_s: float) -> None:
        """Return once a server is connected or the connection is closed.

        Raises Unreachable after `timeout_s`.
        """
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):
                await self._up.wait()
        except TimeoutError as error:
            raise Unreachable(self._server) from error

    def on_reconnect(self, wake: Callable[[], None]) -> None:
        """Call `wake` after every reconnect and at the close, until `off_reconnect`."""
        self._on_reconnect.add(wake)

    def off_reconnect(self, wake: Callable[[], None]) -> None:
        """Undo `on_reconnect`."""
        self._on_reconnect.discard(wake)

    def opened(self) -> None:
        """Note the first server."""
        self._up.set()

    def lost(self) -> None:
        """Note that the server is away; a closed connection waits for no other one."""
        if not self.closed.is_set():
            self._up.clear()

    def reconnected(self) -> None:
        """Note that a server is connected again, and wake who asked for it."""
        self.connected_s = asyncio.get_running_loop().time()
        self._up.set()
        self._wake()

    def end(self) -> None:
        """Close for good: nobody waits for a server any more."""
        self.closed.set()
        self._up.set()
        self._wake()

    def _wake(self) -> None:
        for wake in list(self._on_reconnect):
            wake()
