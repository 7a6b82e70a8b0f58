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
"""A `Row` and what it is linked by: kind (schemas.batch.SpanKind), correlation (-1 none)."""

LINKED_ROW_BYTES = ROW_BYTES + 9


class SpanBuffer:
    """Collects spans until they are taken; ids rise from 1, names are interned for the attempt.

    One thread records at a time; `append` and `link` alone may be called from any.
    """

    def __init__(self) -> None:
        """Begin empty, with no names and ids from 1."""
        self._rows: list[Row] = []
        self._linked: list[LinkedRow] = []
        self._names: dict[str, int] = {}
        self._next_span = 1
        self._attribute_bytes = 0
        #: appends one `Row`
        self.append = self._rows.append
        #: appends one `LinkedRow`
        self.link = self._linked.append

    def name_id(self, text: str) -> int:
        """Return the id of a name, the same for the whole attempt."""
        known = self._names.get(text)
        if known is None:
            known = self._names[text] = len(self._names)
        return known

    def reserve(self, count: int = 1) -> int:
        """Take `count` span ids and return the first."""
        first = self._next_span
        self._next_span = first + count
        return first

    def note(self, attributes: Mapping[str, Any]) -> bytes:
        """Return attributes as the JSON text of a row, counted towards the batch's size."""
        text = json_text(attributes)
        self._attribute_bytes += len(text)
        return text

    def __len__(self) -> int:
        """Return how many spans wait to be taken."""
        return len(self._rows) + len(self._linked)

    @property
    def size_bytes(self) -> int:
        """Return about how large the rows are on the wire."""
        linked_bytes = len(self._linked) * LINKED_ROW_BYTES
        return len(self._rows) * ROW_BYTES + linked_bytes + self._attribute_bytes

    @property
    def names(self) -> Mapping[str, int]:
        """Return the interned names by text."""
        return self._names

    def take(self, most: int | None = None) -> list[Row]:
        """Remove and return the oldest appended rows (all, or up to `most`)."""
        count = len(self._rows) if most is None else min(most, len(self._rows))
        taken = self._rows[:count]
        del self._rows[:count]
        self._forget_bytes()
        return taken

    def take_linked(self) -> list[LinkedRow]:
        """Remove and return all linked rows."""
        taken = self._linked[:]
        del self._linked[: len(taken)]
        self._forget_bytes()
        return taken

    def _forget_bytes(self) -> None:
        if not self._rows and not self._linked:
            self._attribute_bytes = 0
