"""Spans and markers of user code: `from mlscope.tracing import span, marker`."""

from collections.abc import Mapping
from typing import Any

from mlscope.tracing.application import USER_SPANS, UserSpan
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectedSpan, CollectorRequest
from services.agent.collectors.nesting import nested

OPTIONS: tuple[str, ...] = ()


def availability() -> Availability:
    """Return level application, everywhere."""
    return Availability((Level.APPLICATION,))


def open_collector(_: CollectorRequest) -> "MarkerCollector":
    """Return a collector of this process's user spans."""
    return MarkerCollector()


class MarkerCollector:
    """Records the spans and markers of user code while a block runs."""

    name = "markers"
    level = Level.APPLICATION

    def begin(self) -> None:
        """Begin to record, without earlier spans."""
        USER_SPANS.take()
        USER_SPANS.is_open = True

    def end(self) -> Collected:
        """Stop recording and return the spans."""
        USER_SPANS.is_open = False
        recorded, dropped = USER_SPANS.take()
        spans = nested([span_of(user_span, user_span.attributes) for user_span in recorded])
        return Collected(spans, dropped)

    def close(self) -> None:
        """Stop recording where a block was interrupted."""
        USER_SPANS.is_open = False


def span_of(user_span: UserSpan, attributes: Mapping[str, Any]) -> CollectedSpan:
    """Return a user span as a collected one, with these attributes; a marker has no duration."""
    return CollectedSpan(
        Level.APPLICATION,
        user_span.name,
        user_span.start_ns,
        max(user_span.duration_ns, 0),
        user_span.thread,
        SpanKind.MARKER if user_span.is_marker else SpanKind.HOST,
        attributes=attributes or None,
    )
