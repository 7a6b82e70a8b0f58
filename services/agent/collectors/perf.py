"""Counters of the kernel and of the processor over each block, by perf_event_open(2).

Software events everywhere (task-clock, page-faults, context-switches, cpu-migrations); cycles,
instructions, cache misses at level hardware where the machine has them. Option `events`: names as
`perf list` has them, or raw ones (`r01c7`). Every thread that there is when a block begins is
counted, and those it starts.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

from mlscope.tracing.clock import now_ns
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectedSpan, CollectorRequest
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.collectors.perf_events import (
    EVENTS,
    Event,
    event_named,
    open_event,
    read_event,
    refusal,
    switch,
    thread_ids,
)

OPTIONS: tuple[str, ...] = ("events",)
_SOFTWARE = ("task-clock", "page-faults", "context-switches", "cpu-migrations")
_HARDWARE = ("cycles", "instructions", "cache-references", "cache-misses")
_PROBES: Mapping[Level, str] = {Level.SYSTEM: "task-clock", Level.HARDWARE: "cycles"}


def availability() -> Availability:
    """Say which of the two kinds of counters can be opened here."""
    reasons = {level: _why_not(name) for level, name in _PROBES.items()}
    levels = tuple(level for level, reason in reasons.items() if not reason)
    return Availability(levels, "; ".join(each for each in reasons.values() if each))


def _why_not(name: str) -> str:
    event = EVENTS[name]
    try:
        os.close(open_event(event, os.getpid()))
    except OSError as error:
        return f"{event.level.name.lower()}: {refusal(error, event)}"
    return ""


def open_collector(request: CollectorRequest) -> "PerfCollector":
    """Open what can be counted of what is wanted. Raises CollectorUnavailable."""
    wanted = request.options.get("events")
    is_asked = wanted is not None
    if not isinstance(wanted, list | tuple):
        wanted = str(wanted).split("+") if is_asked else _by_level(request.level)
    events: dict[str, Event] = {}
    refused: list[str] = []
    for name in wanted:
        try:
            event = event_named(str(name))
            os.close(open_event(event, os.getpid()))
        except KeyError:
            known = ", ".join(EVENTS)
            raise CollectorUnavailable("perf", f"no event {name!r}; known: {known}") from None
        except OSError as error:
            refused.append(f"{name}: {refusal(error, event)}")
        else:
            events[str(name)] = event
    if not events:
        raise CollectorUnavailable("perf", "; ".join(refused) or "no events")
    return PerfCollector(events, refused if is_asked else ())


def _by_level(level: Level) -> Sequence[str]:
    return (*_SOFTWARE, *_HARDWARE) if level >= Level.HARDWARE else _SOFTWARE


class PerfCollector:
    """Counts a block: a counter an event and thread."""

    name = "perf"

    def __init__(self, events: Mapping[str, Event], notes: Sequence[str] = ()) -> None:
        self._events = events
        self._notes = tuple(notes)
        self._open: list[tuple[str, int]] = []

    @property
    def level(self) -> Level:
        """The deepest level of its events."""
        return max(event.level for event in self._events.values())

    def begin(self) -> None:
        """Open a counter for every thread, then let all of them count."""
        for thread in thread_ids():
            for name, event in self._events.items():
                with contextlib.suppress(ProcessLookupError):
                    self._open.append((name, open_event(event, thread)))
        for _, fd in self._open:
            switch(fd, on=True)

    def end(self) -> Collected:
        """Stop the counters and return a total an event."""
        for _, fd in self._open:
            switch(fd, on=False)
        at_ns = now_ns()
        spans = list(self._totals(at_ns))
        self.close()
        return Collected(spans, notes=self._notes)

    def close(self) -> None:
        """Close the counters that are open."""
        while self._open:
            os.close(self._open.pop()[1])

    def _totals(self, at_ns: int) -> Iterator[CollectedSpan]:
        values = dict.fromkeys(self._events, 0.0)
        least = dict.fromkeys(self._events, 1.0)
        for name, fd in self._open:
            value, share = read_event(fd)
            values[name] += value
            least[name] = min(least[name], share) if share else least[name]
        for name, event in self._events.items():
            attributes = {"value": values[name], "unit": event.unit, "total": True}
            if least[name] < 1.0:
                # Counters took turns on too few registers: the value is scaled, not counted.
                attributes["counted_share"] = round(least[name], 4)
            yield CollectedSpan(
                event.level, f"perf.{name}", at_ns, 0, kind=SpanKind.SAMPLE, attributes=attributes
            )
