"""Spans of programs that OpenTelemetry instruments: an OTLP/HTTP receiver in the worker.

Off until a request switches it on (`mlscope run MODEL --collector otlp`), because its receiver
reads exports while blocks run. Needs the extra `otlp`. Predictors, and processes that they start,
find the receiver by the usual environment variables (OTEL_EXPORTER_OTLP_ENDPOINT and the like, set
before the model is opened unless they are already set). Remote servers get a `traceparent` header
with each call, so that their exported spans belong to the query. Spans within a block's time are
kept, at level application; their events are markers.

Options: `address` (HOST:PORT on the loopback; default: a free port), `flush_s` (0.5): how long the
collector waits for spans after a block. Spans that arrive later are counted and left out.
"""

import ipaddress
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mlscope.tracing.propagation import OUTGOING_REQUESTS, OutgoingRequest
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectedSpan, CollectorRequest
from services.agent.collectors.cupti.clock import ClockMap, Pair
from services.agent.collectors.cupti.pairing import paired
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.collectors.otlp.spans import TRACES_PATH, ExportedSpan, collected_spans

if TYPE_CHECKING:
    from services.agent.collectors.otlp.receiver import Receiver

OPTIONS: tuple[str, ...] = ("address", "flush_s")
FLUSH_S = 0.5
MAX_FLUSH_S = 30.0
TOLERANCE_NS = 1_000_000
"""How far a span may reach beyond its block: some languages' clocks tick in milliseconds."""

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
_TRACES_PROTOCOL = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
_EXPORT_DELAY = "OTEL_BSP_SCHEDULE_DELAY"
_EXPORT_DELAY_MS = "100"


def availability() -> Availability:
    """Return level application where `opentelemetry-proto` is installed."""
    if reason := _missing_package():
        return Availability((), reason)
    reason = "off until a request switches it on (--collector otlp): it reads while blocks run"
    return Availability((Level.APPLICATION,), reason, is_asked_for=True)


def prepare(options: Mapping[str, Any]) -> None:
    """Listen, and set the environment of exporters in this process and its children.

    Called before a model is opened. Raises CollectorUnavailable.
    """
    point_exporters_to(RECEIVERS.at(*_address(options)).url)


def open_collector(request: CollectorRequest) -> "OtlpCollector":
    """Open the receiver, or go on with the one that listens. Raises CollectorUnavailable."""
    flush_s = request.options.get("flush_s", FLUSH_S)
    if isinstance(flush_s, bool) or not isinstance(flush_s, int | float):
        raise CollectorUnavailable("otlp", f"flush_s is {flush_s!r:.40}, not a number")
    if not 0 <= flush_s <= MAX_FLUSH_S:
        raise CollectorUnavailable(
            "otlp", f"flush_s is {flush_s}; it must be from 0 to {MAX_FLUSH_S:g}"
        )
    prepare(request.options)
    return OtlpCollector(RECEIVERS.at(*_address(request.options)), float(flush_s))


def point_exporters_to(url: str) -> None:
    """Set the environment variables that OpenTelemetry's exporters read, unless they are set."""
    if _TRACES_ENDPOINT not in os.environ and _ENDPOINT not in os.environ:
        os.environ[_ENDPOINT] = url
        os.environ[_TRACES_ENDPOINT] = url + TRACES_PATH
        os.environ.setdefault(_PROTOCOL, "http/protobuf")
        os.environ.setdefault(_TRACES_PROTOCOL, "http/protobuf")
    os.environ.setdefault(_EXPORT_DELAY, _EXPORT_DELAY_MS)


class Receivers:
    """The receivers of a process by address: an exporter keeps its endpoint for good."""

    def __init__(self) -> None:
        self._receivers: dict[tuple[str, int], Receiver] = {}

    def at(self, host: str, port: int) -> "Receiver":
        """Return the receiver that listens at an address. Raises CollectorUnavailable."""
        if reason := _missing_package():
            raise CollectorUnavailable("otlp", reason)
        from services.agent.collectors.otlp.receiver import Receiver

        if (host, port) not in self._receivers:
            try:
                self._receivers[host, port] = Receiver(host, port)
            except OSError as error:
                raise CollectorUnavailable("otlp", f"{host}:{port}: {error.strerror}") from error
        return self._receivers[host, port]

    def close(self) -> None:
        """Close all of them."""
        while self._receivers:
            self._receivers.popitem()[1].close()


RECEIVERS = Receivers()
"""The worker's: a receiver outlives its run, as the model and its exporter do."""


@dataclass(frozen=True, slots=True)
class _BlockTime:
    """When a block began and ended, in epoch ns."""

    began_ns: int
    ended_ns: int

    def contains(self, span: ExportedSpan) -> bool:
        """Say whether a span lies in it, within the tolerance."""
        began_ns, ended_ns = self.began_ns - TOLERANCE_NS, self.ended_ns + TOLERANCE_NS
        return began_ns <= span.start_ns and span.end_ns <= ended_ns


class OtlpCollector:
    """The spans that were received in each block's time."""

    name = "otlp"
    level = Level.APPLICATION

    def __init__(self, receiver: "Receiver", flush_s: float = FLUSH_S) -> None:
        self._receiver, self._flush_s = receiver, flush_s
        self._began = Pair(0, 0)
        self._last_block: _BlockTime | None = None
        self._late = 0

    def begin(self) -> None:
        """Discard earlier spans; those of the last block's time are late and counted."""
        self._count_late(self._receiver.take()[0])
        OUTGOING_REQUESTS.take()
        OUTGOING_REQUESTS.is_open = True
        self._began = paired()

    def end(self) -> Collected:
        """Wait for spans that are being exported; return those of the block's time."""
        OUTGOING_REQUESTS.is_open = False
        ended = paired()
        # OpenTelemetry's SDK, where this process has loaded it, exports its spans.
        trace = sys.modules.get("opentelemetry.trace")
        provider = None if trace is None else trace.get_tracer_provider()
        with suppress(Exception):  # a failing exporter must not fail the run
            getattr(provider, "force_flush", lambda _: None)(int(self._flush_s * 1000))
        remaining_s = self._flush_s - (time.monotonic() - ended.monotonic_ns / 1e9)
        if remaining_s > 0:
            time.sleep(remaining_s)
        received, dropped, refused = self._receiver.take()
        block = _BlockTime(self._began.foreign_ns, ended.foreign_ns)
        in_block = [span for span in received if block.contains(span)]
        self._count_late(received)
        spans = _with_requests(OUTGOING_REQUESTS.take(), in_block, ClockMap(self._began, ended))
        self._last_block = block
        return Collected(spans, dropped, tuple(self._notes(len(received), len(in_block), refused)))

    def close(self) -> None:
        """Discard unread spans; the receiver goes on listening for the worker's next run."""
        OUTGOING_REQUESTS.is_open = False
        OUTGOING_REQUESTS.take()
        self._receiver.take()

    def _count_late(self, received: Sequence[ExportedSpan]) -> None:
        if self._last_block is not None:
            self._late += sum(self._last_block.contains(span) for span in received)

    def _notes(self, received: int, in_block: int, refused: int) -> Iterator[str]:
        if self._late:
            late, self._late = self._late, 0
            yield f"{late} spans arrived after their block was read: flush_s is {self._flush_s:g}"
        if received and not in_block:
            yield "spans arrived, but none within a block's time"
        if refused:
            yield "requests that are not OTLP were refused"
        endpoint = os.environ.get(_TRACES_ENDPOINT) or os.environ.get(_ENDPOINT, "")
        if not received and not endpoint.startswith(self._receiver.url):
            yield f"exporters are configured to send elsewhere: {endpoint}"


def _with_requests(
    requests: Sequence[OutgoingRequest], exported: Sequence[ExportedSpan], clock: ClockMap
) -> list[CollectedSpan]:
    """Return the outgoing `requests` that have `exported` spans as children, then those spans.

    `clock` maps the epoch times of exported spans to CLOCK_MONOTONIC.
    """
    parents = {span.parent_id for span in exported}
    answered = [request for request in requests if request.span_id in parents]
    request_spans = [
        CollectedSpan(
            Level.APPLICATION,
            "request",
            request.start_ns,
            request.duration_ns,
            request.thread,
            attributes={"otel.trace_id": request.trace_id, "otel.span_id": request.span_id},
        )
        for request in answered
    ]
    places = {request.span_id: place for place, request in enumerate(answered)}
    return [*request_spans, *collected_spans(exported, clock, places)]


def _missing_package() -> str:
    """Return the reason why requests can't be decoded, '' where they can."""
    with suppress(ModuleNotFoundError):  # of the namespace package `opentelemetry`
        if find_spec("opentelemetry.proto") is not None:
            return ""
    return "the package opentelemetry-proto is not installed: pip install 'mlscope[otlp]'"


def _address(options: Mapping[str, Any]) -> tuple[str, int]:
    """Return host and port, 0 for any free one. Raises CollectorUnavailable."""
    address = options.get("address", "127.0.0.1:0")
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname or "", parts.port
        is_loopback = host == "localhost" or ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        is_loopback, host, port = False, "", None
    if not is_loopback or port is None:
        raise CollectorUnavailable("otlp", f"address is {address!r:.80}, not 127.0.0.1:PORT")
    return host, port
