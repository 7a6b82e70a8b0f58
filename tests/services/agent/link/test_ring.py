"""Ring and spool between worker and agent."""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.errors import OpenFailed, RingBroken
from services.agent.link.ring import IDLE, RUNNING, ByteQueue, Handover


class Bytes:
    """A store in plain memory."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.memory = bytearray(capacity)

    def write(self, at: int, body: bytes) -> None:
        """Put bytes."""
        self.memory[at : at + len(body)] = body

    def read(self, at: int, count: int) -> bytes:
        """Get bytes."""
        return bytes(self.memory[at : at + count])


def words() -> "memoryview[int]":
    return memoryview(bytearray(128)).cast("Q")


@given(st.lists(st.one_of(st.binary(max_size=40), st.none()), max_size=80))
def test_a_queue_gives_what_it_took_in_order(moves: list[bytes | None]) -> None:
    """A body is pushed, None pops; a list is the model."""
    queue, model = ByteQueue(words(), 0, Bytes(100)), list[bytes]()
    for body in moves:
        if body is None:
            assert queue.pop() == (model.pop(0) if model else None)
        elif queue.push(body):
            model.append(body)
        else:
            assert sum(len(each) + 8 for each in model) + len(body) + 8 > 100
    assert [queue.pop() for _ in model] == model


def test_a_damaged_record_is_noticed() -> None:
    store = Bytes(100)
    queue = ByteQueue(words(), 0, store)
    queue.push(b"measured")
    store.memory[10] ^= 1
    with pytest.raises(RingBroken):
        queue.pop()


@pytest.mark.parametrize(("written", "length"), [(1 << 63, 8), (101, 8), (16, 9), (16, 0xFFFFFFFF)])
def test_a_writer_that_lies_is_noticed(written: int, length: int) -> None:
    """A model that took over its worker could have its host read gigabytes."""
    slots, store = words(), Bytes(100)
    queue = ByteQueue(slots, 0, store)
    queue.push(bytes(8))
    slots[0] = written
    store.memory[:8] = struct.pack("<II", length, zlib.crc32(bytes(8)))
    with pytest.raises(RingBroken):
        queue.pop()
    assert slots[1] == 0


def test_a_record_cut_short_is_noticed(tmp_path: Path) -> None:
    """The spool file lost its end: as a truncated disk leaves it."""
    made = Handover.create(16, 2000, tmp_path)
    assert made.push(b"measured")
    assert made.push(b"spooled")
    os.truncate(made.spool_fd, 3)
    assert made.pop() == b"measured"
    with pytest.raises(RingBroken):
        made.pop()
    made.close()


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_what_there_is_no_room_for_is_not_made(tmp_path: Path) -> None:
    open_before = open_descriptors()
    with pytest.raises(OpenFailed, match=r"the worker's ring: \d+ bytes are not available"):
        Handover.create(1 << 60, 2000, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        Handover.create(1000, 2000, tmp_path / "file")
    assert open_descriptors() == open_before


@pytest.fixture
def handover(tmp_path: Path) -> Iterator[Handover]:
    made = Handover.create(1000, 2000, tmp_path)
    yield made
    made.close()


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="the ring is a file here")
@pytest.mark.parametrize("size_bytes", [0, 1 << 20])
def test_a_worker_cannot_change_the_size_of_the_ring_that_its_host_reads(
    handover: Handover, size_bytes: int
) -> None:
    """Reading what was cut off would end the host by SIGBUS."""
    assert handover.push(b"measured")
    with pytest.raises(PermissionError):
        os.ftruncate(handover.ring_fd, size_bytes)
    assert handover.pop() == b"measured"


def test_what_the_ring_has_no_room_for_is_spooled(handover: Handover) -> None:
    bodies = [bytes([index]) * 300 for index in range(9)]
    assert [handover.push(body) for body in bodies] == [True] * 9
    assert sorted(iter(handover.pop, None)) == bodies


def test_past_both_bounds_a_batch_is_refused_and_later_taken(handover: Handover) -> None:
    taken = 0
    while handover.push(b"x" * 200):
        taken += 1
    assert taken == 1000 // 208 + 2000 // 208
    assert handover.pop() == b"x" * 200
    assert handover.push(b"y" * 200)


def test_both_sides_see_the_same(handover: Handover) -> None:
    ring_fd, spool_fd = os.dup(handover.ring_fd), os.dup(handover.spool_fd)
    other = Handover(ring_fd, spool_fd, handover.spool_bytes)
    other.push(b"from the worker")
    other.phase = RUNNING
    assert (handover.pop(), handover.phase) == (b"from the worker", RUNNING)
    other.close()
    assert handover.phase == RUNNING != IDLE


def test_nothing_is_left_in_the_folder(handover: Handover, tmp_path: Path) -> None:
    assert handover.push(b"here")
    assert list(tmp_path.iterdir()) == []


def test_silence_counts_from_the_beat_or_from_the_call_it_is_in(handover: Handover) -> None:
    assert handover.silent_ns(10) == 0
    handover.beat(100, 0)
    assert handover.silent_ns(150) == 50
    handover.beat(140, 60)
    assert handover.silent_ns(150) == 90


def test_a_full_disk_is_no_room(handover: Handover, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    while handover.push(b"x" * 200):
        pass
    assert list(iter(handover.pop, None)) == [b"x" * 200] * (1000 // 208)
