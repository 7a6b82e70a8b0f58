"""Counters of the operating system and the processor per block, by perf_event_open(2).

Software events everywhere (task-clock, page-faults, context-switches, cpu-migrations); cycles,
instructions and cache misses at level hardware, where the machine has them. Option `events`: names
as in `perf list` (`ref-cycles`, `LLC-load-misses`, `cs`), or raw events (`r01c7`). Counted are all
threads that exist when a block begins, and the threads that they start.
"""

import contextlib
import errno
import os
from collections.abc import Mapping, Sequence

from mlscope.tracing.clock import now_ns
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import Availability, Collected, CollectedSpan, CollectorRequest
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.collectors.perf.events import (
    ALIASES,
    EVENTS,
    Event,
    Reading,
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
_EVENT_NAMES = f"{', '.join(EVENTS)}, caches as LLC-load-misses, raw events as r01c7"
_PROBES: Mapping[Level, str] = {Level.SYSTEM: "task-clock", Level.HARDWARE: "cycles"}


def availability() -> Availability:
    """Return the levels whose counters can be opened: system, hardware."""
    levels, reasons = list[Level](), list[str]()
    for level, name in _PROBES.items():
        event = EVENTS[name]
        try:
            os.close(open_event(event, os.getpid()))
        except OSError as error:
            reasons.append(f"{level.name.lower()}: {refusal(error, event)}")
        else:
            levels.append(level)
    return Availability(tuple(levels), "; ".join(reasons))


def open_collector(request: CollectorRequest) -> "PerfCollector":
    """Open the events that can be counted. Raises CollectorUnavailable."""
    option = request.options.get("events")
    if isinstance(option, list | tuple):
        names = [str(name) for name in option]
    elif option is not None:
        names = str(option).split("+")
    else:
        names = [*_SOFTWARE, *(_HARDWARE if request.level >= Level.HARDWARE else ())]
    events: dict[str, Event] = {}
    refused: dict[str, list[str]] = {}
    for name in (ALIASES.get(name, name) for name in names):
        try:
            event = event_named(name)
            os.close(open_event(event, os.getpid()))
        except KeyError:
            raise CollectorUnavailable(
                "perf", f"no event {name!r}; the events are {_EVENT_NAMES}"
            ) from None
        except OSError as error:
            refused.setdefault(refusal(error, event), []).append(name)
        else:
            events[name] = event
    reasons = {reason: f"{', '.join(names)}: {reason}" for reason, names in refused.items()}
    if not events:
        raise CollectorUnavailable("perf", "; ".join(reasons.values()) or "no events")
    # Software events are expected everywhere: a missing one is noted without a request for it.
    notes = [
        reasons[reason]
        for reason, names in refused.items()
        if option is not None or names[0] in _SOFTWARE
    ]
    return PerfCollector(events, notes)


class PerfCollector:
    """Counts events per block: one counter per event and thread."""

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
        """Open a counter for every thread, then start all of them.

        Raises OSError, CollectorUnavailable where that is more files than may be open.
        """
        threads = thread_ids()
        try:
            for thread in threads:
                for name, event in self._events.items():
                    with contextlib.suppress(ProcessLookupError):
                        self._open.append((name, open_event(event, thread)))
        except OSError as error:
            self.close()
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            reason = f"too many open files: {len(threads)} threads x {len(self._events)} events"
            raise CollectorUnavailable("perf", reason) from error
        for _, fd in self._open:
            switch(fd, on=True)

    def end(self) -> Collected:
        """Stop the counters and return one total per event."""
        for _, fd in self._open:
            switch(fd, on=False)
        at_ns = now_ns()
        spans, uncounted = self._totals(at_ns)
        self.close()
        notes = self._notes
        if uncounted:
            names = ", ".join(uncounted)
            notes = (
                *notes,
                f"{names}: not counted in every block, because the processor has too few counters",
            )
        return Collected(spans, notes=notes)

    def close(self) -> None:
        """Close the counters that are open."""
        while self._open:
            os.close(self._open.pop()[1])

    def _totals(self, at_ns: int) -> tuple[list[CollectedSpan], list[str]]:
        """Return one total per event, and the events that the processor never counted."""
        readings = {
            name: [read_event(fd) for event_name, fd in self._open if event_name == name]
            for name in self._events
        }
        spans, uncounted = [], []
        for name, event in self._events.items():
            share = counted_share(readings[name])
            if not share:
                uncounted.append(name)
                continue
            value = sum(reading.scaled for reading in readings[name])
            attributes = {"value": value, "unit": event.unit, "total": True}
            if share < 1.0:
                # Events took turns on too few counters: the value is scaled, not counted.
                attributes["counted_share"] = round(share, 4)
            series, kind = f"perf.{name}", SpanKind.SAMPLE
            spans.append(
                CollectedSpan(event.level, series, at_ns, 0, kind=kind, attributes=attributes)
            )
        return spans, uncounted


def counted_share(readings: Sequence[Reading]) -> float:
    """Return the share of the threads' time in which an event was counted; 1 where none ran."""
    enabled_ns = sum(reading.enabled_ns for reading in readings)
    return sum(reading.running_ns for reading in readings) / enabled_ns if enabled_ns else 1.0
