"""The user's own spans and markers: `from mlscope.tracing import span, marker`."""

from collections.abc import Mapping
from typing import Any

from mlscope.tracing.application import NOTEBOOK, Note
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectedSpan, CollectorRequest
from services.agent.collectors.nesting import nested

OPTIONS: tuple[str, ...] = ()


def availability() -> Availability:
    """Say that it works everywhere."""
    return Availability((Level.APPLICATION,))


def open_collector(_: CollectorRequest) -> "MarkerCollector":
    """Open the process's notebook at each block."""
    return MarkerCollector()


class MarkerCollector:
    """Hears what the user's code says while a block runs."""

    name = "markers"
    level = Level.APPLICATION

    def begin(self) -> None:
        """Open the notebook, without what was left in it."""
        NOTEBOOK.take()
        NOTEBOOK.is_open = True

    def end(self) -> Collected:
        """Close the notebook and return what it has."""
        NOTEBOOK.is_open = False
        notes, dropped = NOTEBOOK.take()
        return Collected(nested([span_of(note, note.attributes) for note in notes]), dropped)

    def close(self) -> None:
        """Close the notebook where a block was left in its middle."""
        NOTEBOOK.is_open = False


def span_of(note: Note, attributes: Mapping[str, Any]) -> CollectedSpan:
    """Return what somebody noted as a span, or a marker without length."""
    return CollectedSpan(
        Level.APPLICATION,
        note.name,
        note.start_ns,
        max(note.duration_ns, 0),
        note.thread,
        SpanKind.MARKER if note.is_marker else SpanKind.HOST,
        attributes=attributes or None,
    )
