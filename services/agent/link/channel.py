"""The two ends of the socket between host and worker.

A frame is its length (little-endian uint32) and one encoded message.
"""

import asyncio
import socket
import struct
import threading

from schemas.encoding.errors import MalformedMessage
from services.agent.link.messages import (
    ToHost,
    ToWorker,
    decode_to_host,
    decode_to_worker,
    encode,
)

SOCKET = "link"
"""A socket in the folder of a worker in a container, by which it gets its channel."""

_LENGTH = struct.Struct("<I")
_RECEIVE_BYTES = 1 << 20
_MOST_FROM_WORKER_BYTES = 16 << 20
"""The largest message that a host takes: a model may have taken over its worker."""


class WorkerChannel:
    """The worker's end; `send` may be called from any thread, `receive` from one."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lock = threading.Lock()

    def send(self, message: ToHost) -> None:
        """Send a message. Raises OSError when the host is gone."""
        with self._lock:
            self._end.sendall(framed(encode(message)))

    def receive(self) -> ToWorker | None:
        """Return the next message, or None when the host is gone. Raises MalformedMessage."""
        head = self._read(_LENGTH.size)
        body = self._read(_LENGTH.unpack(head)[0]) if head else None
        return None if body is None else decode_to_worker(body)

    def _read(self, count: int) -> bytes | None:
        """Return exactly `count` bytes, or None at the end of the connection."""
        parts = []
        while count:
            try:
                part = self._end.recv(min(count, _RECEIVE_BYTES))
            except OSError:
                return None
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


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
            head = await self._reader.readexactly(_LENGTH.size)
            length = _LENGTH.unpack(head)[0]
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


def framed(body: bytes) -> bytes:
    """Return an encoded message behind its length."""
    return _LENGTH.pack(len(body)) + body
