"""Counters of the kernel and of the processor over each block, by perf_event_open(2).

Software events everywhere (task-clock, page-faults, context-switches, cpu-migrations); cycles,
instructions, cache misses at level hardware where the machine has them. Option `events`: the
kernel's own names as `perf list` has them (`ref-cycles`, `LLC-load-misses`, `cs`), or raw ones
(`r01c7`). Every thread that there is when a block begins is counted, and those it starts.
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
from services.agent.collectors.perf_events import (
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
_KNOWN = f"{', '.join(EVENTS)}, of caches as LLC-load-misses, raw ones as r01c7"
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
    refused: dict[str, list[str]] = {}
    for name in (ALIASES.get(str(each), str(each)) for each in wanted):
        try:
            event = event_named(name)
            os.close(open_event(event, os.getpid()))
        except KeyError:
            raise CollectorUnavailable("perf", f"no event {name!r}; known: {_KNOWN}") from None
        except OSError as error:
            refused.setdefault(refusal(error, event), []).append(name)
        else:
            events[name] = event
    told = {reason: f"{', '.join(names)}: {reason}" for reason, names in refused.items()}
    if not events:
        raise CollectorUnavailable("perf", "; ".join(told.values()) or "no events")
    # Software events are expected everywhere: one that is not there is told unasked.
    notes = [told[each] for each, names in refused.items() if is_asked or names[0] in _SOFTWARE]
    return PerfCollector(events, notes)


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
        """Open a counter for every thread, then let all of them count.

        Raises OSError, CollectorUnavailable where that is more files than may be open.
        """
        threads = thread_ids()
        try:
            self._open_all(threads)
        except OSError as error:
            self.close()
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            reason = f"too many open files: {len(threads)} threads x {len(self._events)} events"
            raise CollectorUnavailable("perf", reason) from error
        for _, fd in self._open:
            switch(fd, on=True)

    def end(self) -> Collected:
        """Stop the counters and return a total an event."""
        for _, fd in self._open:
            switch(fd, on=False)
        at_ns = now_ns()
        spans, uncounted = self._totals(at_ns)
        self.close()
        notes = self._notes
        if uncounted:
            names = ", ".join(uncounted)
            notes = (*notes, f"{names}: not counted in every block: too few registers for so many")
        return Collected(spans, notes=notes)

    def close(self) -> None:
        """Close the counters that are open."""
        while self._open:
            os.close(self._open.pop()[1])

    def _open_all(self, threads: Sequence[int]) -> None:
        for thread in threads:
            for name, event in self._events.items():
                with contextlib.suppress(ProcessLookupError):
                    self._open.append((name, open_event(event, thread)))

    def _totals(self, at_ns: int) -> tuple[list[CollectedSpan], list[str]]:
        """Return a total an event, and the events that had no register at all."""
        readings = {
            name: [read_event(fd) for of, fd in self._open if of == name] for name in self._events
        }
        spans, uncounted = [], []
        for name, event in self._events.items():
            share = counted_share(readings[name])
            if not share:
                uncounted.append(name)
                continue
            value = sum(each.scaled for each in readings[name])
            attributes = {"value": value, "unit": event.unit, "total": True}
            if share < 1.0:
                # Counters took turns on too few registers: the value is scaled, not counted.
                attributes["counted_share"] = round(share, 4)
            series, kind = f"perf.{name}", SpanKind.SAMPLE
            spans.append(
                CollectedSpan(event.level, series, at_ns, 0, kind=kind, attributes=attributes)
            )
        return spans, uncounted


def counted_share(readings: Sequence[Reading]) -> float:
    """Return for how much of the threads' time an event was counted; 1 where none of them ran."""
    enabled = sum(each.enabled_ns for each in readings)
    return sum(each.running_ns for each in readings) / enabled if enabled else 1.0
