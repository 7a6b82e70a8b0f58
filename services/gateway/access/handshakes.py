"""Handshakes of TLS within bounds: how many are under way, and how long each may take.

Event loops make buffers of half a megabyte for a connection before its client has sent a byte, and
tell its protocol of it only after the handshake: thousands that send nothing would take a gigabyte,
and no token keeps them out.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

HANDSHAKE_S = 10.0
"""The longest a handshake may take."""

MAX_HANDSHAKES = 256
"""How many may be under way."""

MAX_OF_ONE_ADDRESS = 64
"""How many of them may be of one address."""

_AT_ONCE = 16
"""How many connections are accepted before the loop turns to those that it has.

With many more, a flood makes room of honest handshakes before the loop has read what they sent.
"""

_RETRY_S = 1.0
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_log = logging.getLogger(__name__)


class Handshakes:
    """A server that hands connections on once their handshake has ended.

    Where too many are under way, the oldest makes room, of the same address if that has too many:
    who sends nothing keeps nobody out, since an honest handshake takes milliseconds.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        protocol: Callable[[], asyncio.Protocol],
    ) -> None:
        """Accept the connections of a `listener`, which stays its caller's to close.

        `context` has the certificate. Each connection gets a `protocol` of its own.
        """
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._context = context
        self._protocol = protocol
        self._begun: dict[socket.socket, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._listen()

    async def close(self) -> None:
        """Accept no more connections, and end those whose handshake is under way."""
        self._loop.remove_reader(self._listener)
        if self._retry is not None:
            self._retry.cancel()
        for accepted in list(self._begun):
            self._end(accepted)
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except OSError as error:
                if error.errno in _NO_ROOM:
                    _log.warning("no connection can be accepted: %s", error)
                    self._loop.remove_reader(self._listener)
                    self._retry = self._loop.call_later(_RETRY_S, self._listen)
                return
            accepted.setblocking(False)
            self._begin(accepted, str(address[0]))

    def _begin(self, accepted: socket.socket, address: str) -> None:
        of_address = [other for other, its in self._begun.items() if its == address]
        if len(of_address) >= MAX_OF_ONE_ADDRESS:
            self._end(of_address[0])
        elif len(self._begun) >= MAX_HANDSHAKES:
            self._end(next(iter(self._begun)))
        self._begun[accepted] = address
        task = self._loop.create_task(self._shake_hands(accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end(self, accepted: socket.socket) -> None:
        """End a handshake: its transport, which may not exist yet, then reads the end."""
        del self._begun[accepted]
        with suppress(OSError):
            accepted.shutdown(socket.SHUT_RDWR)

    async def _shake_hands(self, accepted: socket.socket) -> None:
        try:
            # What is wrong with a handshake is its client's affair.
            with suppress(OSError):
                await self._loop.connect_accepted_socket(
                    self._protocol,
                    accepted,
                    ssl=self._context,
                    ssl_handshake_timeout=HANDSHAKE_S,
                )
        finally:
            self._begun.pop(accepted, None)
