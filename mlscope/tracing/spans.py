"""Spans of one attempt, recorded with one list append each (about 0.2 us a span)."""

from collections.abc import Mapping
from typing import Any

from mlscope.tracing.texts import json_text

NO_PARENT = -1
NO_ATTRIBUTES = b""
ROW_BYTES = 45
"""Bytes of a row on the wire, without attributes: the columns of TraceCaptured together."""

Row = tuple[int, int, int, int, int, int, int, int, int, bytes]
"""span, parent, level, name, start_ns, duration_ns, thread, query, block, attributes.

`start_ns` is absolute CLOCK_MONOTONIC; `attributes` is a JSON text or empty.
"""

LinkedRow = tuple[int, int, int, int, int, int, int, int, int, bytes, int, int]
"""A `Row`, then its kind (schemas.batch.SpanKind) and correlation (-1 none)."""

LINKED_ROW_BYTES = ROW_BYTES + 9


class SpanBuffer:
    """Collects spans until they are taken; ids rise from 1, names are interned for the attempt.

    One thread records at a time; only `append`, `extend` and `link` may be called from any thread.
    """

    def __init__(self) -> None:
        """Begin empty, with no names and ids from 1."""
        self._rows: list[Row] = []
        self._linked: list[LinkedRow] = []
        self._names: dict[str, int] = {}
        self._next_span = 1
        self._attribute_bytes = 0
        #: appends one `Row`, or several
        self.append = self._rows.append
        self.extend = self._rows.extend
        #: appends one `LinkedRow`
        self.link = self._linked.append

    def name_id(self, text: str) -> int:
        """Return the id of a name, the same for the whole attempt."""
        return self._names.setdefault(text, len(self._names))

    def reserve(self, count: int = 1) -> int:
        """Take `count` span ids and return the first."""
        first = self._next_span
        self._next_span = first + count
        return first

    def note(self, attributes: Mapping[str, Any]) -> bytes:
        """Return attributes as the JSON text of a row, and count it towards the batch's size."""
        text = json_text(attributes)
        self._attribute_bytes += len(text)
        return text

    def __len__(self) -> int:
        """Return how many spans wait to be taken."""
        return len(self._rows) + len(self._linked)

    @property
    def size_bytes(self) -> int:
        """Return the approximate size of the rows on the wire."""
        linked_bytes = len(self._linked) * LINKED_ROW_BYTES
        return len(self._rows) * ROW_BYTES + linked_bytes + self._attribute_bytes

    @property
    def names(self) -> Mapping[str, int]:
        """Return the interned names by text."""
        return self._names

    def take(self, limit: int | None = None) -> list[Row]:
        """Remove and return the oldest appended rows (all, or up to `limit`)."""
        count = len(self._rows) if limit is None else min(limit, len(self._rows))
        rows = self._rows[:count]
        del self._rows[:count]
        self._reset_attribute_bytes()
        return rows

    def take_linked(self) -> list[LinkedRow]:
        """Remove and return all linked rows."""
        rows = self._linked[:]
        del self._linked[: len(rows)]
        self._reset_attribute_bytes()
        return rows

    def _reset_attribute_bytes(self) -> None:
        if not self._rows and not self._linked:
            self._attribute_bytes = 0
