"""W3C trace context of requests to other processes: whose spans belong to which of our calls.

https://www.w3.org/TR/trace-context/. While nobody listens for spans no header is made and nothing
is kept: a test of one attribute.
"""

import contextlib
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from mlscope.tracing.clock import now_ns

MOST_SENT = 100_000
"""Requests kept between two takings; later ones have no header."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that another process answered: CLOCK_MONOTONIC, ids in lower hex."""

    trace_id: str
    span_id: str
    start_ns: int
    duration_ns: int
    thread: int


@dataclass(slots=True)
class Outgoing:
    """The requests of a process, kept while `is_open`."""

    is_open: bool = False
    _sent: list[Sent] = field(default_factory=list)

    @contextlib.contextmanager
    def request(self) -> Iterator[Mapping[str, str]]:
        """Lend the headers of a request that is made inside."""
        if not self.is_open or len(self._sent) >= MOST_SENT:
            yield NO_HEADERS
            return
        trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
        began_ns = now_ns()
        try:
            yield {"traceparent": f"00-{trace_id}-{span_id}-01"}
        finally:
            duration_ns = now_ns() - began_ns
            thread = threading.get_native_id()
            self._sent.append(Sent(trace_id, span_id, began_ns, duration_ns, thread))

    def take(self) -> Sequence[Sent]:
        """Remove and return what was sent."""
        taken, self._sent = self._sent, []
        return taken


OUTGOING = Outgoing()
"""The process's: whoever calls another server has no other way to the run that it is part of."""
