"""The frames between a worker and the process of its inline Python.

A frame is two lengths (little-endian uint64), a msgpack value, and then the bytes of its arrays,
which only the socket copies. In the value an array of numbers is extension 1: element type, shape
with commas, and offset among the bytes, separated by NUL. Both sides check every frame.
"""

import math
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np

from services.agent.worker.inline.wire_memory import needs_more_than

_LENGTHS = struct.Struct("<QQ")
_ARRAY = 1
_NUMBERS = "biufc"
_ALIGNED = 64
_SMALL_BYTES = 1 << 20
_NO_DATA = (ValueError, TypeError, OverflowError, SyntaxError, RecursionError, MemoryError)

Buffer = bytes | memoryview

SAMPLES = "samples"
"""The key of a batch's samples in `env`, for code after the model that contains this text."""


class WireBroken(Exception):
    """The bytes received are no frame, or the other side is gone."""


class FrameTooLarge(Exception):
    """A frame is larger than allowed."""

    def __init__(self, size_bytes: int, most_bytes: int) -> None:
        """Name the frame's size and the largest allowed."""
        self.size_bytes, self.most_bytes = size_bytes, most_bytes
        super().__init__(f"{size_bytes} bytes, at most {most_bytes} are allowed")


class TooManyValues(Exception):
    """The values of a frame need more memory than allowed."""

    def __init__(self, most_bytes: int) -> None:
        """Name the most memory that is allowed."""
        self.most_bytes = most_bytes
        super().__init__(
            f"values that need more than {most_bytes} bytes of memory; return arrays, not lists"
        )


def packed(value: Any, most_bytes: int) -> list[Buffer]:
    """Return a value as a frame in parts. Raises FrameTooLarge, and TypeError for other types.

    Its arrays are not copied: they must not change before the frame is sent.
    """
    arrays = _Arrays()
    body: bytes = msgpack.packb(value, default=arrays.packable)
    if len(body) + arrays.size > most_bytes:
        raise FrameTooLarge(len(body) + arrays.size, most_bytes)
    return [_LENGTHS.pack(len(body), arrays.size), body, *arrays.parts]


def send(channel: socket.socket, frame: Sequence[Buffer], deadline_s: float | None = None) -> None:
    """Send a frame over a `channel`. Raises WireBroken.

    Raises TimeoutError after `deadline_s` (CLOCK_MONOTONIC).
    """
    try:
        for part in frame:
            channel.settimeout(_remaining_s(deadline_s))
            channel.sendall(part)
    except TimeoutError:
        raise
    except OSError as error:
        raise WireBroken(str(error)) from error


def receive(
    channel: socket.socket,
    most_bytes: int,
    deadline_s: float | None = None,
    most_memory_bytes: int | None = None,
) -> Any:
    """Return the next value from a `channel`, of at most `most_bytes`.

    Unpacked it needs at most `most_memory_bytes`; None trusts the other side. Raises WireBroken,
    FrameTooLarge, TooManyValues, and TimeoutError after `deadline_s` (CLOCK_MONOTONIC).
    """
    lengths = _LENGTHS.unpack(_exactly(channel, _LENGTHS.size, deadline_s))
    if sum(lengths) > most_bytes:
        raise FrameTooLarge(sum(lengths), most_bytes)
    body, room = (_exactly(channel, length, deadline_s) for length in lengths)
    is_suspect = most_memory_bytes is not None and len(body) > _SMALL_BYTES
    if most_memory_bytes is not None and is_suspect and needs_more_than(body, most_memory_bytes):
        raise TooManyValues(most_memory_bytes)

    def array(code: int, data: bytes) -> Any:
        return _array(code, bytes(data), room)

    try:
        return msgpack.unpackb(body, ext_hook=array, strict_map_key=False)
    except (*_NO_DATA, msgpack.UnpackException) as error:
        raise WireBroken(f"its answer can't be decoded: {error}") from error


def _exactly(channel: socket.socket, size: int, deadline_s: float | None) -> bytearray:
    body = bytearray(size)
    view, received = memoryview(body), 0
    while received < size:
        try:
            channel.settimeout(_remaining_s(deadline_s))
            count = channel.recv_into(view[received:])
        except TimeoutError:
            raise
        except OSError as error:
            raise WireBroken(str(error)) from error
        if not count:
            raise WireBroken("the other side is gone")
        received += count
    return body


def _remaining_s(deadline_s: float | None) -> float | None:
    if deadline_s is None:
        return None
    remaining_s = deadline_s - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError
    return remaining_s


class _Arrays:
    """The arrays of one value: their bytes one after the other, each at an aligned offset."""

    def __init__(self) -> None:
        self.parts: list[Buffer] = []
        self.size = 0

    def packable(self, value: Any) -> Any:
        """Return what msgpack can pack in place of arrays, and of values that can become arrays."""
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, set | frozenset):
            return list(value)
        if not isinstance(value, np.ndarray) and not hasattr(value, "__array__"):
            name = type(value).__name__
            allowed = "numbers, texts, bytes, arrays, lists and maps"
            raise TypeError(f"a value of type {name} can't be sent; allowed are {allowed}")
        array = np.asarray(value)
        if array.dtype.kind not in _NUMBERS:
            return array.tolist()
        kind = array.dtype.newbyteorder("<")
        shape = ",".join(map(str, array.shape))
        body = np.ascontiguousarray(array, kind).reshape(-1).view(np.uint8)
        gap = -self.size % _ALIGNED
        offset = self.size + gap
        self.parts += [bytes(gap), body.data] if gap else [body.data]
        self.size = offset + body.nbytes
        return msgpack.ExtType(_ARRAY, f"{kind.str}\0{shape}\0{offset}".encode())


def _array(code: int, data: bytes, room: bytearray) -> Any:
    """Return an array over its frame's bytes, which may be written to. Raises ValueError."""
    if code != _ARRAY:
        raise ValueError(f"extension {code}")
    kind, shape, offset = data.decode("ascii").split("\0")
    dtype = np.dtype(kind)
    if dtype.kind not in _NUMBERS:
        raise ValueError(f"element type {dtype}")
    sizes = tuple(int(size) for size in shape.split(",") if size)
    if min(sizes, default=0) < 0:
        raise ValueError(f"shape {shape}")
    if not math.prod(sizes):
        return np.zeros(sizes, dtype)
    return np.frombuffer(room, dtype, math.prod(sizes), int(offset)).reshape(sizes)
