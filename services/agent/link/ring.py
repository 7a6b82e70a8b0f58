"""Finished batches from worker to host: a ring in shared memory, and a spool file behind it.

The ring lies in anonymous memory, which no worker can make smaller while its host reads it, and
the spool in an unlinked file. The worker inherits their descriptors, so that nothing is left behind
when either process is killed, and pushed records can be read after the writer died. There is one
writer and one reader. A record is its length and CRC-32 (little-endian uint32 each) and its bytes;
the writer's cursor moves only once the record is whole. In front of the ring lie the cursors, the
worker's heartbeat, and which samples it prepares.
"""

import contextlib
import mmap
import os
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Protocol, Self

from services.agent.errors import OpenFailed, RingBroken
from services.agent.link.preparation_clock import CELLS, PreparationClock
from services.agent.machine.anonymous_memory import anonymous_memory

_RECORD = struct.Struct("<II")
_RING, _SPOOL = 0, 2
_BEAT, _BUSY, _PHASE, _PREPARATION = 4, 5, 6, 8
_HEADER_SLOTS = _PREPARATION + CELLS
_HEADER_BYTES = _HEADER_SLOTS * 8

LAYOUT = (_RECORD.format, _HEADER_SLOTS, _RING, _SPOOL, _BEAT, _BUSY, _PHASE, _PREPARATION)
"""What writer and reader must agree on."""

IDLE, OPENING, RUNNING = 0, 1, 2
"""Phases of a worker, as its host sees them."""


class _Store(Protocol):
    capacity: int

    def write(self, at: int, body: bytes) -> None: ...

    def read(self, at: int, count: int) -> bytes: ...


class _Memory:
    def __init__(self, memory: mmap.mmap, capacity: int) -> None:
        self._memory, self.capacity = memory, capacity

    def write(self, at: int, body: bytes) -> None:
        self._memory[_HEADER_BYTES + at : _HEADER_BYTES + at + len(body)] = body

    def read(self, at: int, count: int) -> bytes:
        return self._memory[_HEADER_BYTES + at : _HEADER_BYTES + at + count]


class _File:
    def __init__(self, fd: int, capacity: int) -> None:
        self._fd, self.capacity = fd, capacity

    def write(self, at: int, body: bytes) -> None:
        if os.pwrite(self._fd, body, at) != len(body):
            raise OSError("short write")

    def read(self, at: int, count: int) -> bytes:
        return os.pread(self._fd, count, at)


class ByteQueue:
    """One writer's records for one reader; cursors count bytes and never fall."""

    def __init__(self, slots: "memoryview[int]", first_slot: int, store: _Store) -> None:
        """Take a `store`, and the two cursors from `first_slot` on in `slots`: written and read."""
        self._slots, self._written, self._read = slots, first_slot, first_slot + 1
        self._store = store

    @property
    def waiting_bytes(self) -> int:
        """The bytes of the records that are not read yet."""
        return self._slots[self._written] - self._slots[self._read]

    @property
    def capacity_bytes(self) -> int:
        """The most bytes that may wait."""
        return self._store.capacity

    def push(self, body: bytes) -> bool:
        """Add a record; False when there is no room, or the disk has none."""
        record = _RECORD.pack(len(body), zlib.crc32(body)) + body
        written = self._slots[self._written]
        if written + len(record) - self._slots[self._read] > self._store.capacity:
            return False
        at = written % self._store.capacity
        fits = self._store.capacity - at
        try:
            self._store.write(at, record[:fits])
            if len(record) > fits:
                self._store.write(0, record[fits:])
        except OSError:
            return False
        self._slots[self._written] = written + len(record)
        return True

    def pop(self) -> bytes | None:
        """Remove and return the oldest record, or None. Raises RingBroken."""
        at, end = self._slots[self._read], self._slots[self._written]
        if at == end:
            return None
        # The writer may be taken over by a model: nothing that it says is taken on trust.
        if not at < end <= at + self._store.capacity:
            raise RingBroken("a cursor of the ring is damaged")
        head = self._take(at, _RECORD.size)
        if len(head) != _RECORD.size:
            raise RingBroken("a record of the ring is cut short")
        length, checksum = _RECORD.unpack(head)
        if length > end - at - _RECORD.size:
            raise RingBroken("a record of the ring is damaged")
        body = self._take(at + _RECORD.size, length)
        if len(body) != length or zlib.crc32(body) != checksum:
            raise RingBroken("a record of the ring is damaged")
        self._slots[self._read] = at + _RECORD.size + length
        return body

    def _take(self, position: int, count: int) -> bytes:
        at = position % self._store.capacity
        fits = min(count, self._store.capacity - at)
        body = self._store.read(at, fits)
        return body + self._store.read(0, count - fits) if fits < count else body


class Handover:
    """Ring and spool between one worker and its host, and the worker's heartbeat."""

    def __init__(self, ring_fd: int, spool_fd: int, spool_bytes: int) -> None:
        """Map the ring in the file `ring_fd`; the spool is the file `spool_fd`.

        The spool holds at most `spool_bytes`.
        """
        self.ring_fd, self.spool_fd, self.spool_bytes = ring_fd, spool_fd, spool_bytes
        self._memory = mmap.mmap(ring_fd, 0)
        self._view = memoryview(self._memory)
        self._slots = self._view[:_HEADER_BYTES].cast("Q")
        self._preparation_slots = self._slots[_PREPARATION:]
        #: which samples the worker prepares, and since when
        self.preparation = PreparationClock(self._preparation_slots)
        memory = _Memory(self._memory, len(self._memory) - _HEADER_BYTES)
        self._ring = ByteQueue(self._slots, _RING, memory)
        self._spool = ByteQueue(self._slots, _SPOOL, _File(spool_fd, spool_bytes))

    @classmethod
    def create(cls, ring_bytes: int, spool_bytes: int, spool_folder: Path) -> Self:
        """Create ring and spool, of `ring_bytes` and at most `spool_bytes`, below `spool_folder`.

        Raises OpenFailed without room for the ring, OSError without room for the spool.
        """
        ring_fd = _memory_of(_HEADER_BYTES + ring_bytes)
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, ring_fd)
            spool_folder.mkdir(parents=True, exist_ok=True)
            spool_fd = _unlinked_file(spool_folder)
            undo.pop_all()
        return cls(ring_fd, spool_fd, spool_bytes)

    def push(self, body: bytes) -> bool:
        """Hand over a batch, through the spool when the ring is full; False when both are."""
        return self._ring.push(body) or self._spool.push(body)

    @property
    def filled(self) -> float:
        """The share of the ring that waiting batches take, above 1 with those of the spool."""
        return self.waiting_bytes / self._ring.capacity_bytes

    @property
    def waiting_bytes(self) -> int:
        """The bytes of the batches that wait in ring and spool."""
        return self._ring.waiting_bytes + self._spool.waiting_bytes

    def pop(self) -> bytes | None:
        """Return a handed-over batch, or None. Raises RingBroken."""
        body = self._ring.pop()
        return body if body is not None else self._spool.pop()

    def beat(self, now_ns: int, busy_since_ns: int) -> None:
        """Record that the worker lives, and since when it is in one predict call (0: in none)."""
        self._slots[_BUSY] = busy_since_ns
        self._slots[_BEAT] = now_ns

    @property
    def phase(self) -> int:
        """The worker's phase: `IDLE`, `OPENING` or `RUNNING`."""
        return self._slots[_PHASE]

    @phase.setter
    def phase(self, phase: int) -> None:
        self._slots[_PHASE] = phase

    def silent_ns(self, now_ns: int) -> int:
        """Return the time since the last heartbeat, or since the current predict call began."""
        beat, busy = self._slots[_BEAT], self._slots[_BUSY]
        oldest = min(beat, busy) if busy else beat
        return now_ns - oldest if beat else 0

    def close(self) -> None:
        """Close both; they are gone once the other side closes them too."""
        self._preparation_slots.release()
        self._slots.release()
        self._view.release()
        with contextlib.suppress(BufferError):
            self._memory.close()
        os.close(self.ring_fd)
        os.close(self.spool_fd)


def _memory_of(size_bytes: int) -> int:
    """Return the descriptor of memory for a ring. Raises OpenFailed."""
    try:
        if hasattr(os, "memfd_create"):
            return anonymous_memory("mlscope-ring", size_bytes, size_bytes)
        with contextlib.ExitStack() as undo:
            fd = _unlinked_file(Path(tempfile.gettempdir()))
            undo.callback(os.close, fd)
            os.truncate(fd, size_bytes)
            undo.pop_all()
            return fd
    except OSError as error:
        raise OpenFailed("the worker's ring", error.strerror or str(error)) from error


def _unlinked_file(folder: Path) -> int:
    fd, path = tempfile.mkstemp(dir=folder, prefix="mlscope-")
    Path(path).unlink()
    return fd
