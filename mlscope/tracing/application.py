"""A user's own spans: `with span("tokenise"): …` and `marker("cache miss")`, anywhere in a worker.

Recorded while a run looks at level application or deeper, a test of one attribute otherwise.
Any thread may record. Shapes are those of rows: absolute CLOCK_MONOTONIC nanoseconds.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

# The clock module's `now_ns`, without what else it imports: inline code's process has little.
now_ns = time.monotonic_ns

MOST_NOTES = 200_000
"""Spans and markers kept between two takings; what comes after is dropped and counted."""


@dataclass(frozen=True, slots=True)
class Note:
    """A span, or a marker (`duration_ns` -1), as the user's code said it."""

    name: str
    start_ns: int
    duration_ns: int
    thread: int
    attributes: dict[str, Any]

    @property
    def is_marker(self) -> bool:
        """Say whether it is a point in time."""
        return self.duration_ns < 0


@dataclass(slots=True)
class Notebook:
    """Where notes go while `is_open`."""

    is_open: bool = False
    dropped: int = 0
    _notes: list[Note] = field(default_factory=list)

    def add(self, note: Note) -> None:
        """Keep a note, while there is room."""
        if len(self._notes) < MOST_NOTES:
            self._notes.append(note)
        else:
            self.dropped += 1

    def take(self) -> tuple[Sequence[Note], int]:
        """Remove and return the notes, and how many were dropped."""
        taken, self._notes = self._notes, []
        dropped, self.dropped = self.dropped, 0
        return taken, dropped


NOTEBOOK = Notebook()
"""The process's: a user's code has no other way to reach the run that it is part of."""


@contextlib.contextmanager
def span(name: str, /, **attributes: Any) -> Iterator[None]:
    """Record what happens inside as a span of level application; attributes must be JSON."""
    if not NOTEBOOK.is_open:
        yield
        return
    began_ns = now_ns()
    try:
        yield
    finally:
        duration_ns = now_ns() - began_ns
        thread = threading.get_native_id()
        NOTEBOOK.add(Note(name, began_ns, duration_ns, thread, attributes))


def marker(name: str, /, **attributes: Any) -> None:
    """Record that something happened now."""
    if NOTEBOOK.is_open:
        NOTEBOOK.add(Note(name, now_ns(), -1, threading.get_native_id(), attributes))
