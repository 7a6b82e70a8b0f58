"""W3C trace context of requests to other processes, which joins their spans with our calls.

https://www.w3.org/TR/trace-context/. While no collector listens for spans, requests have no header
and are not recorded; that costs a test of one attribute.
"""

import contextlib
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from mlscope.tracing.clock import now_ns

MAX_REQUESTS = 100_000
"""Requests kept between two reads; further ones have no header."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request that another process answered: CLOCK_MONOTONIC ns, ids in lower-case hex."""

    trace_id: str
    span_id: str
    start_ns: int
    duration_ns: int
    thread: int


@dataclass(slots=True)
class OutgoingRequests:
    """The requests of a process, recorded while `is_open`."""

    is_open: bool = False
    _requests: list[OutgoingRequest] = field(default_factory=list)

    @contextlib.contextmanager
    def request(self) -> Iterator[Mapping[str, str]]:
        """Yield the headers of a request that is made inside the block."""
        if not self.is_open or len(self._requests) >= MAX_REQUESTS:
            yield NO_HEADERS
            return
        trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
        began_ns = now_ns()
        try:
            yield {"traceparent": f"00-{trace_id}-{span_id}-01"}
        finally:
            duration_ns = now_ns() - began_ns
            thread = threading.get_native_id()
            self._requests.append(OutgoingRequest(trace_id, span_id, began_ns, duration_ns, thread))

    def take(self) -> Sequence[OutgoingRequest]:
        """Remove and return the recorded requests."""
        requests, self._requests = self._requests, []
        return requests


OUTGOING_REQUESTS = OutgoingRequests()
"""The process's: code that calls another server has no other way to reach its run."""
