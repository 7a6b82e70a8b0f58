"""Spans as OpenTelemetry exports them, and as this project stores them. Pure.

https://opentelemetry.io/docs/specs/otlp/ and opentelemetry/proto/trace/v1/trace.proto
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlscope.tracing.collected import CollectedSpan
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors.cupti.clock import ClockMap

TRACES_PATH = "/v1/traces"
"""The path of an OTLP/HTTP receiver that takes traces."""

_MAX_NS = (1 << 63) - 1
_KINDS = ("", "internal", "server", "client", "producer", "consumer")
_STATUSES = ("", "ok", "error")
_THREAD_ID = "thread.id"


@dataclass(frozen=True, slots=True)
class ExportedEvent:
    """An event at one time (epoch ns) within a span."""

    name: str
    at_ns: int
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExportedSpan:
    """A span as it was exported: ids in lower hex ('' none), times in epoch ns.

    `kind` and `status` are numbers of trace.proto: kind 2 is a server's span, status 2 an error.
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
    events: tuple[ExportedEvent, ...] = ()
    service: str = ""
    scope: str = ""

    def collected(self, clock: ClockMap, parent: int) -> CollectedSpan:
        """Return it as a collector's span, whose parent has the place `parent`.

        `clock` maps epoch times to CLOCK_MONOTONIC.
        """
        start_ns = clock.monotonic(self.start_ns)
        thread = self.attributes.get(_THREAD_ID)
        is_thread_id = isinstance(thread, int) and 0 < thread < 1 << 31
        return CollectedSpan(
            Level.APPLICATION,
            self.name,
            start_ns,
            max(clock.monotonic(self.end_ns) - start_ns, 0),
            thread if is_thread_id and isinstance(thread, int) else 0,
            attributes=attributes_of(self),
            parent=parent,
        )


def checked_ns(stamp: int, field_name: str) -> int:
    """Return an epoch timestamp that fits an int8 column. Raises ValueError, naming the field."""
    if not 0 <= stamp <= _MAX_NS:
        raise ValueError(f"{field_name} is {stamp}, not a time in ns from 0 to 2^63 - 1")
    return stamp


def attributes_of(span: ExportedSpan) -> dict[str, Any]:
    """Return a span's attributes, and its other properties under OpenTelemetry's names."""
    properties = {
        "service.name": span.service,
        "otel.scope.name": span.scope,
        "otel.kind": _enum_name(_KINDS, span.kind),
        "otel.status_code": _enum_name(_STATUSES, span.status),
        "otel.status_description": span.status_message,
        "otel.trace_id": span.trace_id,
        "otel.span_id": span.span_id,
    }
    return {**span.attributes, **{name: value for name, value in properties.items() if value}}


def collected_spans(
    exported: Sequence[ExportedSpan],
    clock: ClockMap,
    preceding_places: Mapping[str, int] | None = None,
) -> list[CollectedSpan]:
    """Return spans by start, then their events as markers, each with its parent's place.

    `exported`: the spans, with times in epoch ns, which `clock` maps to CLOCK_MONOTONIC.
    `preceding_places`: the places, from 0, of spans that the caller puts before these, by span id;
    they may be parents of spans from other processes.
    """
    preceding = preceding_places or {}
    ordered = sorted(exported, key=lambda span: (span.start_ns, -span.end_ns))
    places = {span.span_id: place for place, span in enumerate(ordered, len(preceding))}
    parents = [places.get(span.parent_id, preceding.get(span.parent_id, -1)) for span in ordered]
    break_cycles(parents, len(preceding))
    pairs = zip(ordered, parents, strict=True)
    spans = [span.collected(clock, parent) for span, parent in pairs]
    markers = [
        replace(
            span,
            name=event.name,
            start_ns=clock.monotonic(event.at_ns),
            duration_ns=0,
            kind=SpanKind.MARKER,
            attributes=dict(event.attributes) or None,
            parent=place,
        )
        for place, (source, span) in enumerate(zip(ordered, spans, strict=True), len(preceding))
        for event in source.events
    ]
    return [*spans, *markers]


def break_cycles(parents: list[int], shift: int) -> None:
    """Remove the parent of a span that would be its own ancestor.

    Places below `shift` are of preceding spans, which have no parent among these.
    """
    visited_from: list[int] = [-1] * len(parents)
    for first in range(len(parents)):
        at = first
        while at >= 0 and visited_from[at] < 0:
            visited_from[at] = first
            parent = parents[at] - shift
            if parent >= 0 and visited_from[parent] == first:
                parents[at] = -1
            at = parents[at] - shift


def _enum_name(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else str(number)
