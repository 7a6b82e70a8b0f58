"""What hears NVTX's ranges and marks: stacks of open ranges, and a notebook of those that ended."""

import contextlib
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mlscope.tracing.application import Note, Notebook, now_ns

_MOST_TEXT = 200
_Open = tuple[str, int, dict[str, Any]]


class Ears:
    """Ranges of any threads; stacks are those of one thread and one domain, as NVTX has them."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._stacks: dict[tuple[int, str], list[_Open]] = {}
        self._started: dict[int, _Open] = {}
        self._unended_elsewhere = 0
        self._ids = itertools.count(1 << 62)

    @property
    def is_open(self) -> bool:
        """Say whether they listen."""
        return self._notebook.is_open

    def open(self) -> None:
        """Begin to listen, with nothing heard."""
        self._forget()
        self._notebook.is_open = True

    def close(self) -> tuple[Sequence[Note], int, int]:
        """Stop; return what was heard, how much was dropped, how many ranges had not ended."""
        self._notebook.is_open = False
        notes, dropped = self._notebook.take()
        unended = sum(map(len, self._stacks.values())) + len(self._started)
        unended += self._unended_elsewhere
        self._forget()
        return notes, dropped, unended

    def push(self, name: str, domain: str, attributes: Mapping[str, Any]) -> int:
        """Begin a range of this thread; return how many were open around it."""
        stack = self._stack(domain)
        stack.append((name, now_ns(), dict(attributes)))
        return len(stack) - 1

    def pop(self, domain: str) -> int:
        """End the innermost range of this thread; return how many are open around it.

        One that began before the block did is not known.
        """
        ended_ns = now_ns()
        stack = self._stack(domain)
        if stack:
            self._note(stack.pop(), ended_ns)
        return len(stack)

    def start(self, name: str, attributes: Mapping[str, Any], number: int = 0) -> int:
        """Begin a range that any thread may end; return its number, a new one where it has none."""
        number = number or next(self._ids)
        self._started[number] = (name, now_ns(), dict(attributes))
        return number

    def end(self, number: int) -> None:
        """End a range that was started, in this block."""
        ended_ns = now_ns()
        opened = self._started.pop(number, None)
        if opened is not None:
            self._note(opened, ended_ns)

    def mark(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Hear that something happened now."""
        self._notebook.add(Note(name, now_ns(), -1, threading.get_native_id(), dict(attributes)))

    def hear_of(self, notes: Iterable[Note], unended: int) -> None:
        """Keep what another process heard in this block."""
        for note in notes:
            self._notebook.add(note)
        self._unended_elsewhere += unended

    def _note(self, opened: _Open, ended_ns: int) -> None:
        name, began_ns, attributes = opened
        thread = threading.get_native_id()
        self._notebook.add(Note(name, began_ns, ended_ns - began_ns, thread, attributes))

    def _stack(self, domain: str) -> list[_Open]:
        return self._stacks.setdefault((threading.get_ident(), domain), [])

    def _forget(self) -> None:
        self._stacks.clear()
        self._started.clear()
        self._unended_elsewhere = 0
        self._notebook.take()


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give a module or class another function for a while."""
    kept = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


def said_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was said by the package, without what was not; payloads may be anything."""
    kept = {
        name: value
        for name, value in attributes.items()
        if value is not None and not (isinstance(value, str) and value == "")
    }
    return {"source": "nvtx", **kept}


def plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was said as JSON can have it; payloads may be anything, arrays among them."""
    return dict(_plain(attributes))


def _plain(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in attributes.items():
        if value is None or isinstance(value, int | float | str):
            yield name, value
        elif isinstance(value, list | tuple | range) and len(value) <= _MOST_TEXT:
            yield name, list(value)
        else:
            with contextlib.suppress(Exception):  # a payload's own words may fail
                yield name, repr(value)[:_MOST_TEXT]
