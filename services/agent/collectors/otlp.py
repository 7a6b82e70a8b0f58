"""Spans of programs that OpenTelemetry instruments: a receiver of OTLP/HTTP in the worker.

Off until a request switches it on (`mlscope run MODEL --collector otlp`): its receiver reads what
comes while blocks run. Predictors, and processes that they start, find it by the usual environment
(OTEL_EXPORTER_OTLP_ENDPOINT and kin, set before the model is opened where nobody else set them);
remote servers get a `traceparent` with each call, so that what they export lies in its query.
Spans within a block's time are kept, at level application; their events are markers.

Options: `address` (HOST:PORT of the loopback; a free port), `flush_s` (0.5): how long spans are
waited for after a block; what comes later is counted as late, and left out.
"""

import ipaddress
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mlscope.tracing.propagation import OUTGOING, Sent
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectedSpan, CollectorRequest
from services.agent.collectors.cupti_clock import ClockMap, Pair, paired
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.collectors.otlp_receiver import PATH, Receiver
from services.agent.collectors.otlp_spans import ToldSpan, collected_spans

OPTIONS: tuple[str, ...] = ("address", "flush_s")
FLUSH_S = 0.5
MOST_FLUSH_S = 30.0
TOLERANCE_NS = 1_000_000
"""How far a span may stick out of its block: some languages' clocks tick in milliseconds."""

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
_TRACES_PROTOCOL = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
_DELAY = "OTEL_BSP_SCHEDULE_DELAY"
_DELAY_MS = "100"


def availability() -> Availability:
    """Say that it works everywhere, where it is asked for."""
    reason = "off until a request switches it on (--collector otlp): it reads while blocks run"
    return Availability((Level.APPLICATION,), reason, is_asked_for=True)


def prepare(options: Mapping[str, Any]) -> None:
    """Listen, and tell exporters of this process and its children where, before a model is opened.

    Raises CollectorUnavailable.
    """
    point_exporters_to(LISTENING.at(*_address(options)).url)


def open_collector(request: CollectorRequest) -> "OtlpCollector":
    """Open the receiver, or go on with the one that listens. Raises CollectorUnavailable."""
    flush_s = request.options.get("flush_s", FLUSH_S)
    if isinstance(flush_s, bool) or not isinstance(flush_s, int | float):
        raise CollectorUnavailable("otlp", f"flush_s is {flush_s!r:.40}, no number")
    if not 0 <= flush_s <= MOST_FLUSH_S:
        raise CollectorUnavailable("otlp", f"flush_s is {flush_s}, not from 0 to {MOST_FLUSH_S:g}")
    prepare(request.options)
    return OtlpCollector(LISTENING.at(*_address(request.options)), float(flush_s))


def point_exporters_to(url: str) -> None:
    """Set what OpenTelemetry's exporters read, but for what is set."""
    if _TRACES_ENDPOINT not in os.environ and _ENDPOINT not in os.environ:
        os.environ[_ENDPOINT] = url
        os.environ[_TRACES_ENDPOINT] = url + PATH
        os.environ.setdefault(_PROTOCOL, "http/protobuf")
        os.environ.setdefault(_TRACES_PROTOCOL, "http/protobuf")
    os.environ.setdefault(_DELAY, _DELAY_MS)


class Listening:
    """The receivers of a process by the address asked for: exporters keep theirs for good."""

    def __init__(self) -> None:
        self._receivers: dict[tuple[str, int], Receiver] = {}

    def at(self, host: str, port: int) -> Receiver:
        """Return the receiver of an address, listening. Raises CollectorUnavailable."""
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


LISTENING = Listening()
"""The worker's: a receiver outlives its run, as the model and its exporter do."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A block's time, in epoch ns."""

    began_ns: int
    ended_ns: int

    def holds(self, span: ToldSpan) -> bool:
        """Say whether a span lies in it, nearly."""
        began, ended = self.began_ns - TOLERANCE_NS, self.ended_ns + TOLERANCE_NS
        return began <= span.start_ns and span.end_ns <= ended


class OtlpCollector:
    """What came in each block's time."""

    name = "otlp"
    level = Level.APPLICATION

    def __init__(self, receiver: Receiver, flush_s: float = FLUSH_S) -> None:
        self._receiver, self._flush_s = receiver, flush_s
        self._began = Pair(0, 0)
        self._last: _Stretch | None = None
        self._late = 0

    def begin(self) -> None:
        """Leave out what came before; what is of the last block's time came too late."""
        self._forget()
        OUTGOING.take()
        OUTGOING.is_open = True
        self._began = paired()

    def end(self) -> Collected:
        """Wait for what is on its way, and return what lies in the block's time."""
        OUTGOING.is_open = False
        ended = paired()
        _flush_exporter(self._flush_s)
        left_s = self._flush_s - (time.monotonic() - ended.monotonic_ns / 1e9)
        if left_s > 0:
            time.sleep(left_s)
        told, dropped, refused = self._receiver.take()
        stretch = _Stretch(self._began.foreign_ns, ended.foreign_ns)
        kept = [span for span in told if stretch.holds(span)]
        self._count_late(told)
        spans = _joined(OUTGOING.take(), kept, ClockMap(self._began, ended))
        self._last = stretch
        return Collected(spans, dropped, tuple(self._notes(len(told), len(kept), refused)))

    def close(self) -> None:
        """Listen on, for the worker's next run; what was left is forgotten."""
        OUTGOING.is_open = False
        OUTGOING.take()
        self._receiver.take()

    def _forget(self) -> None:
        self._count_late(self._receiver.take()[0])

    def _count_late(self, told: Sequence[ToldSpan]) -> None:
        if self._last is not None:
            self._late += sum(self._last.holds(span) for span in told)

    def _notes(self, told: int, kept: int, refused: int) -> Iterator[str]:
        if self._late:
            late, self._late = self._late, 0
            yield f"{late} spans came after their block was read: flush_s is {self._flush_s:g}"
        if told and not kept:
            yield "spans came, none in a block's time"
        if refused:
            yield "requests were refused that are no OTLP"
        set_by_others = os.environ.get(_TRACES_ENDPOINT) or os.environ.get(_ENDPOINT, "")
        if not told and not set_by_others.startswith(self._receiver.url):
            yield f"exporters are told to send elsewhere: {set_by_others}"


def _joined(sent: Sequence[Sent], told: Sequence[ToldSpan], clock: ClockMap) -> list[CollectedSpan]:
    """Return requests that were answered with spans, and the spans."""
    parents = {span.parent_id for span in told}
    answered = [each for each in sent if each.span_id in parents]
    requests = [
        CollectedSpan(
            Level.APPLICATION,
            "request",
            each.start_ns,
            each.duration_ns,
            each.thread,
            attributes={"otel.trace_id": each.trace_id, "otel.span_id": each.span_id},
        )
        for each in answered
    ]
    places = {each.span_id: place for place, each in enumerate(answered)}
    return [*requests, *collected_spans(told, clock, places)]


def _flush_exporter(within_s: float) -> None:
    """Have this process's own OpenTelemetry, where it is loaded, export what it holds."""
    trace = sys.modules.get("opentelemetry.trace")
    provider = None if trace is None else trace.get_tracer_provider()
    force_flush = getattr(provider, "force_flush", None)
    if force_flush is not None:
        with suppress(Exception):  # an exporter's trouble is its own
            force_flush(int(within_s * 1000))


def _address(options: Mapping[str, Any]) -> tuple[str, int]:
    """Return host and port, 0 for any that is free. Raises CollectorUnavailable."""
    text = options.get("address", "127.0.0.1:0")
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname or "", parts.port
        is_here = host == "localhost" or ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        is_here, host, port = False, "", None
    if not is_here or port is None:
        raise CollectorUnavailable("otlp", f"address is {text!r:.80}, not 127.0.0.1:PORT")
    return host, port
