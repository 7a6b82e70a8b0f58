"""The worker's end of the socket between host and worker, and what both ends share.

A frame is its length (little-endian uint32) and one encoded message.
"""

import socket
import struct
import threading

from services.agent.link.messages import ToHost, ToWorker, decode_to_worker, encode

SOCKET = "link"
"""A socket in the folder of a worker in a container, by which it gets its channel."""

LENGTH = struct.Struct("<I")
"""Of a message's length, which goes before it."""

_RECEIVE_BYTES = 1 << 20


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
        head = self._read(LENGTH.size)
        body = self._read(LENGTH.unpack(head)[0]) if head else None
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


def framed(body: bytes) -> bytes:
    """Return an encoded message behind its length."""
    return LENGTH.pack(len(body)) + body
