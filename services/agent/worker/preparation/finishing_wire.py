"""Outputs and answers on the wire between a worker and its post-processing process (I/O)."""

import pickle
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_SIZES = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Finished:
    """The answers of a query by output, the begin and end of each step (ns), and the thread."""

    answers: Sequence[tuple[str, Any]]
    stamps: Sequence[tuple[int, int]]
    thread: int


def send(
    connection: socket.socket, value: Any, is_over: Callable[[], bool] = lambda: False
) -> None:
    """Send a `value` over a `connection`; its arrays go from where they lie.

    Raises OSError; TimeoutError where it waits and `is_over` says so.
    """
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(body), *(buffer.raw() for buffer in buffers)]
    sizes = np.array([len(parts), *(part.nbytes for part in parts)], "<u8").tobytes()
    for part in (memoryview(sizes), *parts):
        unsent = part.cast("B") if part.nbytes else part
        while unsent.nbytes:
            try:
                unsent = unsent[connection.send(unsent) :]
            except TimeoutError:
                if is_over():
                    raise


def received(
    connection: socket.socket, is_over: Callable[[], bool], *, is_wrapped: bool = False
) -> Any:
    """Return the value that was sent over a `connection`; None where the other end closed.

    It is in a tuple if `is_wrapped`. Raises OSError; TimeoutError where it waits and `is_over` says
    so.
    """
    head = _read(connection, _SIZES.size, is_over)
    if head is None:
        return None
    (count,) = _SIZES.unpack(head)
    sizes = _read(connection, count * _SIZES.size, is_over)
    bodies = []
    for (size,) in _SIZES.iter_unpack(sizes or b""):
        bodies.append(_read(connection, size, is_over))
    if any(body is None for body in (sizes, *bodies)):
        return None
    # Both ends are this worker's own code.
    value = pickle.loads(bodies[0] or b"", buffers=bodies[1:])  # noqa: S301
    return (value,) if is_wrapped else value


def _read(connection: socket.socket, size: int, is_over: Callable[[], bool]) -> bytearray | None:
    """Return this number of bytes; None where the other end closed before."""
    body = bytearray(size)
    unread = memoryview(body)
    while unread.nbytes:
        try:
            count = connection.recv_into(unread)
        except TimeoutError:
            if is_over():
                raise
            continue
        if not count:
            return None
        unread = unread[count:]
    return body
