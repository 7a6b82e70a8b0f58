"""Recording of NVTX ranges and marks: stacks of open ranges, and a buffer of those that ended."""

import contextlib
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlscope.tracing.application import UserSpan, UserSpanBuffer, now_ns

_MAX_TEXT = 200
_OpenRange = tuple[str, int, dict[str, Any]]
"""A range's name, start (CLOCK_MONOTONIC ns) and attributes."""


class RangeRecorder:
    """Ranges and marks of all threads, recorded while it is open.

    As in NVTX, each thread has one stack of pushed ranges for each domain.
    """

    def __init__(self, user_spans: UserSpanBuffer) -> None:
        self._user_spans = user_spans
        self._stacks: dict[tuple[int, str], list[_OpenRange]] = {}
        self._started: dict[int, _OpenRange] = {}
        self._unended_elsewhere = 0
        self._ids = itertools.count(1 << 62)

    @property
    def is_open(self) -> bool:
        """Say whether it records."""
        return self._user_spans.is_open

    def open(self) -> None:
        """Begin to record, with nothing recorded so far."""
        self._clear()
        self._user_spans.is_open = True

    def close(self) -> tuple[Sequence[UserSpan], int, int]:
        """Stop recording; return the ranges, the number dropped, and the number still open."""
        self._user_spans.is_open = False
        recorded, dropped = self._user_spans.take()
        unended = sum(map(len, self._stacks.values())) + len(self._started)
        unended += self._unended_elsewhere
        self._clear()
        return recorded, dropped, unended

    def push(self, name: str, domain: str, attributes: Mapping[str, Any]) -> int:
        """Begin a range called `name` on this thread's stack; return how many were open around it.

        `domain`: which of the thread's stacks, '' the default domain's.
        `attributes`: JSON values and a payload of any type.
        """
        if not self.is_open:
            return 0
        stack = self._stack(domain)
        stack.append((name, now_ns(), dict(attributes)))
        return len(stack) - 1

    def pop(self, domain: str) -> int:
        """End the innermost range of this thread; return how many are open around it.

        A range that began before the recorder was opened is ignored.
        """
        ended_ns = now_ns()
        if not self.is_open:
            return 0
        stack = self._stack(domain)
        if stack:
            self._add(stack.pop(), ended_ns)
        return len(stack)

    def start(self, name: str, attributes: Mapping[str, Any], number: int = 0) -> int:
        """Begin a range called `name` that any thread may end; return its number.

        `attributes`: JSON values and a payload of any type.
        `number`: the profiler's number of the range; without one (0) the range gets a new number.
        """
        number = number or next(self._ids)
        if self.is_open:
            self._started[number] = (name, now_ns(), dict(attributes))
        return number

    def end(self, number: int) -> None:
        """End a range by its number; one that began before the recorder was opened is ignored."""
        ended_ns = now_ns()
        started = self._started.pop(number, None)
        if started is not None:
            self._add(started, ended_ns)

    def mark(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Record an event at this time."""
        if self.is_open:
            thread = threading.get_native_id()
            self._user_spans.add(UserSpan(name, now_ns(), -1, thread, dict(attributes)))

    def extend(self, user_spans: Iterable[UserSpan], unended: int) -> None:
        """Add ranges that another process recorded; `unended` of its ranges did not end."""
        for user_span in user_spans:
            self._user_spans.add(user_span)
        self._unended_elsewhere += unended

    def _add(self, ended: _OpenRange, ended_ns: int) -> None:
        name, began_ns, attributes = ended
        thread = threading.get_native_id()
        self._user_spans.add(UserSpan(name, began_ns, ended_ns - began_ns, thread, attributes))

    def _stack(self, domain: str) -> list[_OpenRange]:
        return self._stacks.setdefault((threading.get_ident(), domain), [])

    def _clear(self) -> None:
        self._stacks.clear()
        self._started.clear()
        self._unended_elsewhere = 0
        self._user_spans.take()


def range_attributes(**arguments: Any) -> dict[str, Any]:
    """Return the attributes of a range: its source, and the arguments that were set."""
    values = {
        name: value
        for name, value in arguments.items()
        if value is not None and not (isinstance(value, str) and value == "")
    }
    return {"source": "nvtx", **values}


def json_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as JSON holds them; payloads may be of any type, such as arrays."""
    converted: dict[str, Any] = {}
    for name, value in attributes.items():
        is_short_list = isinstance(value, list | tuple | range) and len(value) <= _MAX_TEXT
        if is_short_list or isinstance(value, int | float | str | None):
            converted[name] = list(value) if is_short_list else value
            continue
        with contextlib.suppress(Exception):  # a payload's __repr__ may fail
            converted[name] = repr(value)[:_MAX_TEXT]
    return converted
