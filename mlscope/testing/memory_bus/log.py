"""Streams in memory: sequences, guarded writes, the duplicate window and the size limit."""

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass

from mlscope.bus.errors import Conflict, StreamFull
from mlscope.bus.records import StreamContents
from mlscope.bus.streams import Stream, matches

Clock = Callable[[], float]
"""Returns seconds that never decrease."""


@dataclass(frozen=True, slots=True)
class MemoryMessage:
    """A message of a stream."""

    subject: str
    sequence: int
    body: bytes
    #: when it was stored (epoch nanoseconds)
    stored_ns: int


class Log:
    """One stream."""

    def __init__(self, stream: Stream, clock: Clock) -> None:
        """Start empty; the duplicate window is measured by `clock`."""
        self.stream = stream
        self.last_sequence = 0
        self._clock = clock
        self._kept: dict[int, MemoryMessage] = {}
        self._sequences: dict[str, list[int]] = {}
        self._seen: dict[str, tuple[int, float]] = {}
        self._size_bytes = 0

    def captures(self, subject: str) -> bool:
        """Tell whether the stream stores messages on a subject."""
        return any(matches(captured, subject) for captured in self.stream.subjects)

    def append(
        self,
        subject: str,
        body: bytes,
        *,
        id: str = "",  # noqa: A002
        expected: tuple[str, int] | None = None,
    ) -> int:
        """Store `body` on `subject` and return its sequence.

        A message with the same `id` within the duplicate window is not stored again: the sequence
        of the first one is returned. `expected` is (filter, its last sequence). Raises Conflict,
        StreamFull.
        """
        if (first_sequence := self._repeated(id)) is not None:
            return first_sequence
        if expected is not None and (last := self.last_on(expected[0])) != expected[1]:
            raise Conflict(*expected, last)
        size_bytes = len(subject) + len(body)
        bound = self.stream.max_bytes
        while 0 < bound < self._size_bytes + size_bytes:
            if not self.stream.forgets or not self._kept:
                raise StreamFull(subject)
            oldest = next(iter(self._kept))
            self.purge(self._kept[oldest].subject, up_to=oldest)
        self.last_sequence += 1
        self._kept[self.last_sequence] = MemoryMessage(
            subject, self.last_sequence, body, time.time_ns()
        )
        self._sequences.setdefault(subject, []).append(self.last_sequence)
        self._size_bytes += size_bytes
        if id:
            self._seen[id] = (self.last_sequence, self._clock())
        return self.last_sequence

    def _repeated(self, id_of_message: str) -> int | None:
        oldest = self._clock() - self.stream.duplicate_window_s
        while self._seen:
            first = next(iter(self._seen))
            if self._seen[first][1] >= oldest:
                break
            del self._seen[first]
        return self._seen.get(id_of_message, (None, 0.0))[0]

    def last_on(self, filter_subject: str) -> int:
        """Return the last sequence on a filter, 0 if there is none."""
        matching = (s for subject, s in self._sequences.items() if matches(filter_subject, subject))
        return max((sequences[-1] for sequences in matching), default=0)

    def beyond(self, filters: tuple[str, ...], after: int) -> list[MemoryMessage]:
        """Return the messages on any of the filters with a sequence above `after`, in order."""
        matching = [
            sequences
            for subject, sequences in self._sequences.items()
            if sequences[-1] > after
            and any(matches(filter_subject, subject) for filter_subject in filters)
        ]
        return [self._kept[s] for s in heapq.merge(*matching) if s > after]

    def get(self, sequence: int) -> MemoryMessage | None:
        """Return a message, or None if it was purged."""
        return self._kept.get(sequence)

    def contents(self, on: str = "") -> StreamContents:
        """Return what is held, and how many messages `on` a filter."""
        first = min(self._kept, default=self.last_sequence + 1)
        counts = (len(s) for subject, s in self._sequences.items() if on and matches(on, subject))
        bound = self.stream.max_bytes
        return StreamContents(first, self.last_sequence, self._size_bytes, bound, sum(counts))

    def purge(self, filter_subject: str, up_to: int = 0) -> None:
        """Delete the messages on a filter, all or `up_to` a sequence; sequences continue."""
        last = up_to or self.last_sequence
        for subject in list(self._sequences):
            if not matches(filter_subject, subject):
                continue
            sequences = self._sequences.pop(subject)
            if later := [sequence for sequence in sequences if sequence > last]:
                self._sequences[subject] = later
            for sequence in sequences[: len(sequences) - len(later)]:
                message = self._kept.pop(sequence)
                self._size_bytes -= len(message.subject) + len(message.body)
