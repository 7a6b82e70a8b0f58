"""What a worker and the process of its inline Python say to each other: frames of msgpack.

A frame is its length (little-endian uint64) and a msgpack value; arrays of numbers are extension
1: the element type's text, a NUL, the shape as numbers with commas, a NUL, the bytes in C order.
Neither side trusts the other further than this module reads.
"""

import socket
import struct
import time
from typing import Any

import msgpack
import numpy as np

_LENGTH = struct.Struct("<Q")
_ARRAY = 1
_NUMBERS = "biufc"
_CHUNK = 1 << 20


class WireBroken(Exception):
    """What came is no frame, or the other side is gone."""


class FrameTooLarge(Exception):
    """A frame is larger than may be."""

    def __init__(self, found_bytes: int, most_bytes: int) -> None:
        """Name both sizes."""
        self.found_bytes, self.most_bytes = found_bytes, most_bytes
        super().__init__(f"{found_bytes} bytes, at most {most_bytes} are allowed")


def packed(value: Any, most_bytes: int) -> bytes:
    """Return a value as a frame. Raises FrameTooLarge, and TypeError for what is no data."""
    body: bytes = msgpack.packb(value, default=_plain)
    if len(body) > most_bytes:
        raise FrameTooLarge(len(body), most_bytes)
    return _LENGTH.pack(len(body)) + body


def send(channel: socket.socket, frame: bytes, deadline_s: float | None = None) -> None:
    """Send a frame. Raises WireBroken, and TimeoutError past `deadline_s` (CLOCK_MONOTONIC)."""
    try:
        channel.settimeout(_left_s(deadline_s))
        channel.sendall(frame)
    except TimeoutError:
        raise
    except OSError as error:
        raise WireBroken(str(error)) from error


def receive(channel: socket.socket, most_bytes: int, deadline_s: float | None = None) -> Any:
    """Return the next value. Raises WireBroken, FrameTooLarge, and TimeoutError as `send`."""
    (length,) = _LENGTH.unpack(_exactly(channel, _LENGTH.size, deadline_s))
    if length > most_bytes:
        raise FrameTooLarge(length, most_bytes)
    body = _exactly(channel, length, deadline_s)
    try:
        return msgpack.unpackb(body, ext_hook=_array, strict_map_key=False, max_ext_len=length)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise WireBroken(f"its answer is no data: {error}") from error


def _exactly(channel: socket.socket, size: int, deadline_s: float | None) -> bytearray:
    body = bytearray(size)
    view, got = memoryview(body), 0
    while got < size:
        try:
            channel.settimeout(_left_s(deadline_s))
            count = channel.recv_into(view[got : got + _CHUNK])
        except TimeoutError:
            raise
        except OSError as error:
            raise WireBroken(str(error)) from error
        if not count:
            raise WireBroken("the other side is gone")
        got += count
    return body


def _left_s(deadline_s: float | None) -> float | None:
    if deadline_s is None:
        return None
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _plain(value: Any) -> Any:
    """Return what msgpack takes for what it does not know: arrays, and what can be one."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, set | frozenset):
        return list(value)
    if not isinstance(value, np.ndarray) and not hasattr(value, "__array__"):
        raise TypeError(f"{type(value).__name__} is no data: numbers, texts, bytes, arrays, "
                        "lists and maps of these are")  # fmt: skip
    array = np.asarray(value)
    if array.dtype.kind not in _NUMBERS:
        return array.tolist()
    shape = ",".join(map(str, array.shape))
    head = f"{array.dtype.newbyteorder('<').str}\0{shape}\0".encode()
    body = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return msgpack.ExtType(_ARRAY, head + body)


def _array(code: int, data: bytes) -> Any:
    """Return an array that may be written to. Raises ValueError for what is none."""
    if code != _ARRAY:
        raise ValueError(f"extension {code}")
    kind, shape, body = bytes(data).split(b"\0", 2)
    dtype = np.dtype(kind.decode("ascii"))
    if dtype.kind not in _NUMBERS:
        raise ValueError(f"element type {dtype}")
    sizes = tuple(int(size) for size in shape.split(b",") if size)
    return np.frombuffer(bytearray(body), dtype).reshape(sizes)
