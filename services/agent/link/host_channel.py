"""The host's end of the socket between host and worker: asyncio's, which a worker does without."""

import asyncio
import socket

from schemas.encoding.errors import MalformedMessage
from services.agent.link.channel import LENGTH, framed
from services.agent.link.messages import ToHost, ToWorker, decode_to_host, encode

_MOST_FROM_WORKER_BYTES = 16 << 20
"""The largest message that a host takes: a model may have taken over its worker."""


class HostChannel:
    """The host's end, on its event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def over(cls, end: socket.socket) -> "HostChannel":
        """Return the channel over one end of a socket pair."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    async def send(self, message: ToWorker) -> None:
        """Send a message. A dead worker raises nothing here: its process tells."""
        # A worker that dies with messages unread resets the connection, and uvloop raises
        # RuntimeError for bytes to a transport that is closed.
        if self._writer.is_closing():
            return
        try:
            self._writer.write(framed(encode(message)))
            await self._writer.drain()
        except ConnectionError:
            return

    async def receive(self) -> ToHost | None:
        """Return the next message, or None when the worker is gone. Raises MalformedMessage."""
        try:
            head = await self._reader.readexactly(LENGTH.size)
            length = LENGTH.unpack(head)[0]
            if length > _MOST_FROM_WORKER_BYTES:
                expected = f"at most {_MOST_FROM_WORKER_BYTES} bytes"
                raise MalformedMessage(field="", found=f"{length} bytes", expected=expected)
            body = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return decode_to_host(body)

    def close(self) -> None:
        """Close this end."""
        self._writer.close()
