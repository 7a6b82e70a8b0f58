"""Spans as OpenTelemetry tells them, and as this project stores them. Pure.

https://opentelemetry.io/docs/specs/otlp/ and opentelemetry/proto/trace/v1/trace.proto
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import CollectedSpan
from services.agent.collectors.cupti_clock import ClockMap

MOST_NESTED = 32
"""How deep a value's lists and maps may lie in each other."""

_MOST_NS = (1 << 63) - 1
_KINDS = ("", "internal", "server", "client", "producer", "consumer")
_STATUSES = ("", "ok", "error")
_THREAD_ID = "thread.id"


@dataclass(frozen=True, slots=True)
class ToldEvent:
    """Something that happened at one time (epoch ns) within a span."""

    name: str
    at_ns: int
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToldSpan:
    """A span as it was exported: ids in lower hex ('' none), times in epoch ns.

    `kind` and `status` count as in trace.proto: 2 is a server's span, 2 an error.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_ns: int
    end_ns: int
    kind: int = 0
    status: int = 0
    status_message: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[ToldEvent, ...] = ()
    service: str = ""
    scope: str = ""


def checked_ns(stamp: int, what: str) -> int:
    """Return a stamp that the rows can hold. Raises ValueError."""
    if not 0 <= stamp <= _MOST_NS:
        raise ValueError(f"{what} {stamp} is no time in ns")
    return stamp


def attributes_of(told: ToldSpan) -> dict[str, Any]:
    """Return a span's attributes, and what else was told of it under OpenTelemetry's names."""
    more = {
        "service.name": told.service,
        "otel.scope.name": told.scope,
        "otel.kind": _named(_KINDS, told.kind),
        "otel.status_code": _named(_STATUSES, told.status),
        "otel.status_description": told.status_message,
        "otel.trace_id": told.trace_id,
        "otel.span_id": told.span_id,
    }
    return {**told.attributes, **{name: value for name, value in more.items() if value}}


def collected_spans(
    told: Sequence[ToldSpan], clock: ClockMap, known: Mapping[str, int] | None = None
) -> list[CollectedSpan]:
    """Return spans, by start, then their events as markers, each with its parent's place.

    `known` are the places, from 0, of spans that the caller puts before these, by their ids:
    parents of what other processes did.
    """
    rising = sorted(told, key=lambda each: (each.start_ns, -each.end_ns))
    before = known or {}
    places = {span.span_id: place for place, span in enumerate(rising, len(before))}
    parents = [places.get(each.parent_id, before.get(each.parent_id, -1)) for each in rising]
    _cut_circles(parents, len(before))
    spans = [_span(each, clock, up) for each, up in zip(rising, parents, strict=True)]
    return [*spans, *_markers(rising, spans, clock, len(before))]


def _cut_circles(parents: list[int], shift: int) -> None:
    """Take the parents off spans that are their own ancestors: who says so is believed in nothing.

    Places below `shift` are of spans that have no parent among these.
    """
    seen: list[int] = [-1] * len(parents)
    for first in range(len(parents)):
        at = first
        while at >= 0 and seen[at] < 0:
            seen[at] = first
            above = parents[at] - shift
            if above >= 0 and seen[above] == first:
                parents[at] = -1
            at = parents[at] - shift


def _span(told: ToldSpan, clock: ClockMap, parent: int) -> CollectedSpan:
    start = clock.monotonic(told.start_ns)
    thread = told.attributes.get(_THREAD_ID)
    is_thread = isinstance(thread, int) and 0 < thread < 1 << 31
    return CollectedSpan(
        Level.APPLICATION,
        told.name,
        start,
        max(clock.monotonic(told.end_ns) - start, 0),
        thread if is_thread and isinstance(thread, int) else 0,
        attributes=attributes_of(told),
        parent=parent,
    )


def _markers(
    told: Sequence[ToldSpan], spans: Sequence[CollectedSpan], clock: ClockMap, shift: int
) -> Iterator[CollectedSpan]:
    for place, (each, span) in enumerate(zip(told, spans, strict=True)):
        for event in each.events:
            yield replace(
                span,
                name=event.name,
                start_ns=clock.monotonic(event.at_ns),
                duration_ns=0,
                kind=SpanKind.MARKER,
                attributes=dict(event.attributes) or None,
                parent=place + shift,
            )


def _named(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else str(number)
