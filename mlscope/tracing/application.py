"""Spans of user code: `with span("tokenise"): …` and `marker("cache miss")`, anywhere in a worker.

They are recorded while a run traces level application or deeper; otherwise they cost a test of one
attribute. Any thread may record. Times are absolute CLOCK_MONOTONIC nanoseconds, as in rows.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

# The clock module's `now_ns`, without its imports: the process of inline code loads few modules.
now_ns = time.monotonic_ns

MAX_USER_SPANS = 200_000
"""Spans and markers kept between two reads; further ones are dropped and counted."""


@dataclass(frozen=True, slots=True)
class UserSpan:
    """A span, or a marker (`duration_ns` -1), as the user's code recorded it."""

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
class UserSpanBuffer:
    """User spans, recorded while `is_open`."""

    is_open: bool = False
    dropped: int = 0
    _spans: list[UserSpan] = field(default_factory=list)

    def add(self, recorded: UserSpan) -> None:
        """Keep a span or marker while there is room."""
        if len(self._spans) < MAX_USER_SPANS:
            self._spans.append(recorded)
        else:
            self.dropped += 1

    def take(self) -> tuple[Sequence[UserSpan], int]:
        """Remove and return the spans, and the number dropped."""
        spans, self._spans = self._spans, []
        dropped, self.dropped = self.dropped, 0
        return spans, dropped


USER_SPANS = UserSpanBuffer()
"""The process's: user code has no other way to reach its run."""


@contextlib.contextmanager
def span(name: str, /, **attributes: Any) -> Iterator[None]:
    """Record the enclosed code as a span of level application; `attributes` must be JSON."""
    if not USER_SPANS.is_open:
        yield
        return
    began_ns = now_ns()
    try:
        yield
    finally:
        duration_ns = now_ns() - began_ns
        thread = threading.get_native_id()
        USER_SPANS.add(UserSpan(name, began_ns, duration_ns, thread, attributes))


def marker(name: str, /, **attributes: Any) -> None:
    """Record an event at this time; `attributes` must be JSON."""
    if USER_SPANS.is_open:
        USER_SPANS.add(UserSpan(name, now_ns(), -1, threading.get_native_id(), attributes))
