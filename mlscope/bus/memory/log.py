"""Streams in memory: sequences, guards, the duplicate window and the bound."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from mlscope.bus.errors import Conflict, StreamFull
from mlscope.bus.streams import Stream

Clock = Callable[[], float]
"""Seconds that only grow."""


def matches(filter_subject: str, subject: str) -> bool:
    """Tell whether a filter (`*` one token, a final `>` one or more) takes a subject."""
    wanted, tokens = filter_subject.split("."), subject.split(".")
    if wanted[-1] == ">":
        if len(tokens) < len(wanted):
            return False
        wanted, tokens = wanted[:-1], tokens[: len(wanted) - 1]
    return len(wanted) == len(tokens) and all(
        want in ("*", token) for want, token in zip(wanted, tokens, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """A message of a stream."""

    subject: str
    sequence: int
    body: bytes


class Log:
    """One stream."""

    def __init__(self, stream: Stream, clock: Clock) -> None:
        """Begin empty."""
        self.stream = stream
        self.last_sequence = 0
        self._clock = clock
        self._kept: dict[int, Kept] = {}
        self._sequences: dict[str, list[int]] = {}
        self._seen: dict[str, tuple[int, float]] = {}
        self._size_bytes = 0

    def captures(self, subject: str) -> bool:
        """Tell whether the stream keeps what is sent to a subject."""
        return any(matches(captured, subject) for captured in self.stream.subjects)

    def append(
        self,
        subject: str,
        body: bytes,
        *,
        id: str = "",  # noqa: A002
        expected: tuple[str, int] | None = None,
    ) -> int:
        """Keep a message and return its sequence; a repeat returns the first one's.

        Raises Conflict, StreamFull.
        """
        if id and (known := self._repeated(id)) is not None:
            return known
        if expected is not None and (found := self.last_on(expected[0])) != expected[1]:
            raise Conflict(*expected, found)
        size_bytes = len(subject) + len(body)
        bound = self.stream.max_bytes
        while 0 < bound < self._size_bytes + size_bytes:
            if not self.stream.forgets or not self._kept:
                raise StreamFull(subject)
            oldest = next(iter(self._kept))
            self.purge(self._kept[oldest].subject, up_to=oldest)
        self.last_sequence += 1
        self._kept[self.last_sequence] = Kept(subject, self.last_sequence, body)
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
        """Return the last sequence on a filter, 0 when there is none."""
        taken = (s for subject, s in self._sequences.items() if matches(filter_subject, subject))
        return max((sequences[-1] for sequences in taken), default=0)

    def beyond(self, filters: tuple[str, ...], after: int) -> list[Kept]:
        """Return the messages on any of the filters beyond a sequence, in order."""
        taken = [
            sequences
            for subject, sequences in self._sequences.items()
            if sequences[-1] > after and any(matches(each, subject) for each in filters)
        ]
        return [self._kept[s] for s in heapq.merge(*taken) if s > after]

    def get(self, sequence: int) -> Kept | None:
        """Return a message, or None when it was purged."""
        return self._kept.get(sequence)

    def purge(self, filter_subject: str, up_to: int = 0) -> None:
        """Drop the messages on a filter, all or up to a sequence; sequences go on."""
        last = up_to or self.last_sequence
        for subject in [each for each in self._sequences if matches(filter_subject, each)]:
            sequences = self._sequences.pop(subject)
            if later := [each for each in sequences if each > last]:
                self._sequences[subject] = later
            for sequence in sequences[: len(sequences) - len(later)]:
                kept = self._kept.pop(sequence)
                self._size_bytes -= len(kept.subject) + len(kept.body)
