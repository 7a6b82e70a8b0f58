"""Frames between a worker and its inline Python."""

import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from services.agent.worker.inline.wire import (
    FrameTooLarge,
    TooManyValues,
    WireBroken,
    packed,
    receive,
    send,
)
from services.agent.worker.inline.wire_memory import needs_more_than

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Lend both ends of a channel."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def through(value: Any) -> Any:
    """Return what comes out at the other end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(ours, packed(value, 1 << 30))
        return receive(theirs, 1 << 30)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary(),
        lambda below: st.lists(below) | st.dictionaries(st.text(), below),
        max_leaves=20,
    )
)
def test_plain_values_come_as_they_are(value: Any) -> None:
    assert through(value) == value


@given(
    arrays.arrays(
        st.sampled_from(["?", "u1", "<i2", ">i4", "<f2", "<f4", ">f8", "<c8"]),
        arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    )
)
def test_arrays_come_as_they_are(array: Any) -> None:
    came = through({"x": [array.T]})["x"][0]
    assert (came.shape, came.dtype) == (array.T.shape, array.dtype.newbyteorder("<"))
    np.testing.assert_array_equal(came, array.T)
    assert came.flags.writeable


def test_what_is_like_numbers_is_sent_as_such() -> None:
    assert through([np.float32(0.5), {3}, np.array(["a", "b"])]) == [0.5, [3], ["a", "b"]]
    with pytest.raises(TypeError, match="type object can't be sent"):
        packed(object(), 1 << 20)


def test_no_frame_may_be_too_large(ends: Ends) -> None:
    with pytest.raises(FrameTooLarge, match="103 bytes, at most 50"):
        packed(bytes(101), 50)
    with pytest.raises(FrameTooLarge, match="at most 50"):
        packed(np.zeros(101, np.uint8), 50)
    send(ends[0], packed(bytes(101), 200))
    with pytest.raises(FrameTooLarge):
        receive(ends[1], 50)


@given(
    st.recursive(
        st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text() | st.binary(),
        lambda below: st.lists(below) | st.dictionaries(st.text(), below),
        max_leaves=40,
    )
)
def test_the_memory_of_a_value_is_counted_before_it_is_unpacked(value: Any) -> None:
    def size_of(part: Any) -> int:
        below = [*part.items()] if isinstance(part, dict) else part
        return sys.getsizeof(part) + sum(
            map(size_of, below if isinstance(part, list | tuple | dict) else ())
        )

    body = msgpack.packb(value)
    unpacked = msgpack.unpackb(body, strict_map_key=False)
    assert not needs_more_than(body, 2 * size_of(unpacked) + 64)
    assert needs_more_than(body, size_of(unpacked) // 4 - 64)


@pytest.mark.parametrize(
    "body",
    [
        b"\xdd\x00\x40\x00\x00" + b"\x90" * (1 << 22),
        b"\xdd\x00\x40\x00\x00" + b"\x80" * (1 << 22),
        b"\xdd\xff\xff\xff\xff" + bytes(1 << 21),
        b"\x91" * (1 << 22),
        b"\xdf\x0f\xff\xff\xff" + bytes(1 << 21),
    ],
    ids=["lists", "maps", "a long list", "nested", "a long map"],
)
def test_a_small_answer_does_not_become_large(ends: Ends, body: bytes) -> None:
    threading.Thread(
        target=lambda: ends[0].sendall(struct.pack("<QQ", len(body), 0) + body), daemon=True
    ).start()
    with pytest.raises(TooManyValues, match="return arrays"):
        receive(ends[1], 1 << 26, None, 1 << 26)


def test_large_texts_bytes_and_lists_of_numbers_come(ends: Ends) -> None:
    value = {"text": "x" * 3_000_000, "bytes": bytes(3_000_000), "numbers": [0.5] * 100_000}
    threading.Thread(target=lambda: send(ends[0], packed(value, 1 << 26)), daemon=True).start()
    assert receive(ends[1], 1 << 23, None, 1 << 24) == value


@pytest.mark.parametrize(
    "body",
    [
        b"\xc1",
        b"",
        b"\x81",
        b"\xc7\x05\x02abcde",
        b"\xc7\x04\x01O\x00\x00x",
        b"\xc7\x07\x01<f4\x004\x00x",
        b"\xc7\x07\x01<f4\x002\x000",
        b"\xc7\x08\x01<f4\x00-1\x000",
        b"\xdd\xff\xff\xff\xff",
        b"\xc7\x06\x01S1\x001\x000",
        b"\xc7\x18\x01<f4\x001\x00" + b"9" * 18,
        b"\xc7\x06\x01(4\x001\x000",
    ],
)
def test_what_is_no_frame_is_told_as_such(ends: Ends, body: bytes) -> None:
    ends[0].sendall(struct.pack("<QQ", len(body), 4) + body + bytes(4))
    with pytest.raises(WireBroken, match="can't be decoded"):
        receive(ends[1], 1 << 20)


def test_an_end_that_is_gone_or_silent_is_told(ends: Ends) -> None:
    with pytest.raises(TimeoutError):
        receive(ends[1], 1 << 20, time.monotonic() + 0.05)
    ends[0].close()
    with pytest.raises(WireBroken, match="gone"):
        receive(ends[1], 1 << 20)
    with pytest.raises(WireBroken):
        send(ends[1], [bytes(1 << 22)])
