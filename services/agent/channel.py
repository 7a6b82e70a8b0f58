"""Words between agent and worker: msgpack maps, each behind its length (little-endian uint32)."""

import asyncio
import socket
import struct
import threading
from typing import Any

import msgpack

_LENGTH = struct.Struct("<I")

Words = dict[str, Any]


class Channel:
    """The worker's end; `send` may be called from any thread, `receive` from one."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lock = threading.Lock()

    def send(self, words: Words) -> None:
        """Send a map. Raises OSError when the agent is gone."""
        with self._lock:
            self._end.sendall(framed(words))

    def receive(self) -> Words | None:
        """Return the next map, or None when the agent is gone."""
        head = self._exactly(_LENGTH.size)
        body = self._exactly(_LENGTH.unpack(head)[0]) if head else None
        return None if body is None else unframed(body)

    def _exactly(self, count: int) -> bytes | None:
        parts = []
        while count:
            try:
                part = self._end.recv(min(count, 1 << 20))
            except OSError:
                return None
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


class AgentChannel:
    """The agent's end, on its event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def over(cls, end: socket.socket) -> "AgentChannel":
        """Return the channel over one end of a socket pair."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    async def send(self, words: Words) -> None:
        """Send a map; a worker that is gone is noticed by its process, not here."""
        try:
            self._writer.write(framed(words))
            await self._writer.drain()
        except ConnectionError:
            return

    async def receive(self) -> Words | None:
        """Return the next map, or None when the worker is gone."""
        try:
            head = await self._reader.readexactly(_LENGTH.size)
            return unframed(await self._reader.readexactly(_LENGTH.unpack(head)[0]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def close(self) -> None:
        """Close this end."""
        self._writer.close()


def framed(words: Words) -> bytes:
    """Return a map as it travels."""
    body: bytes = msgpack.packb(words)
    return _LENGTH.pack(len(body)) + body


def unframed(body: bytes) -> Words:
    """Return the map of a frame's body."""
    words: Words = msgpack.unpackb(body, strict_map_key=False)
    return words
