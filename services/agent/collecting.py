"""The collectors of one run: chosen by its level and request, opened, driven around its blocks."""

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlscope.tracing.texts import json_text
from schemas.level import Level
from services.agent.collectors import (
    Availability,
    Collected,
    CollectedSpan,
    Collector,
    CollectorRequest,
    Reopenable,
    availability_of,
    collector_named,
    collector_names,
)
from services.agent.collectors.errors import CollectorError, CollectorUnavailable
from services.agent.collectors.nesting import only
from services.agent.predictors import Opened
from services.agent.recorder import Recorder

_log = logging.getLogger(__name__)
_CHUNK = 20_000
_UNKNOWN = -1
_MOST_BYTES = 16 << 10
_MOST_REASON = 200

Switches = Mapping[str, bool | dict[str, Any]]
"""By collector: false for off, true for on, options for on with these."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """What a run's collectors are opened for."""

    opened: Opened
    level: Level
    #: the session's: counters are read in those of their own alone
    variant: str = ""
    switches: Switches = field(default_factory=dict)
    reopening: Reopenable | None = None

    @property
    def deepest(self) -> Level:
        """How deep its collectors may go: to the counters only where nothing else is timed."""
        return min(self.level, Level.HARDWARE if self.variant == "counters" else Level.SYSTEM)


class Collecting:
    """Collectors that are open, what they gave of the last block, and what they could not."""

    def __init__(
        self,
        collectors: Sequence[Collector] = (),
        levels: frozenset[Level] = frozenset(),
        missing: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._collectors = list(collectors)
        #: what its collectors give
        self.levels = levels
        #: by collector that is not open, why
        self.missing: Mapping[str, str] = missing or {}
        #: a reader must see these
        self.notes = list(notes)
        self.dropped = 0
        self._begun: list[Collector] = []
        self._collected: list[tuple[Collector, Collected]] = []
        #: whether it saw an opening: that is its one block
        self._is_watch = False

    @property
    def names(self) -> tuple[str, ...]:
        """The collectors that are open."""
        return tuple(each.name for each in self._collectors)

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Have collectors begin, the last one innermost, and end in turn."""
        if self._is_watch:
            yield
            return
        self._begun = []
        for collector in list(self._collectors):
            if self._try(collector, collector.begin) is not _FAILED:
                self._begun.append(collector)
        try:
            yield
        finally:
            for collector in reversed(self._begun):
                collected = self._try(collector, collector.end)
                if isinstance(collected, Collected):
                    self._collected.append((collector, collected))

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Have collectors see the opening of a model: their one block, which a later run attaches.

        What they need of the device is there before the model is opened.
        """
        with self.block():
            yield
        self._is_watch = True
        if _STARTING_DEVICE & {*self.names}:
            self._note("the device was started before the opening, to trace it: load has no part")

    def attach(self, recorder: Recorder, block: int) -> None:
        """Record what the last block left, a part at a time; what was dropped is counted."""
        taken, self._collected = self._collected, []
        if self._is_watch:
            # Another attempt is of the same opening.
            self._collected, self.dropped = taken, 0
            taken = [(each, _since(found, recorder.attempt.origin_ns)) for each, found in taken]
        for collector, collected in taken:
            self.dropped += collected.dropped
            if collected.dropped:
                self._note(f"{collector.name}: {collected.dropped} records were dropped")
            for note in collected.notes:
                self._note(f"{collector.name}: {note}")
            numbered = recorder.spans.reserve(len(collected.spans))
            for first in range(0, len(collected.spans), _CHUNK):
                _link(recorder, collected.spans[first : first + _CHUNK], block, numbered, first)
                recorder.flush()

    def close(self) -> None:
        """Close every collector."""
        while self._collectors:
            collector = self._collectors.pop()
            self._try(collector, collector.close)

    def _try(self, collector: Collector, act: Any) -> Any:
        """Have a collector do something; one that fails is closed, left out from then on, and said.

        What it holds (descriptors, CUPTI, a thread) is no more the run's to pay for.
        """
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - foreign code must not end the run
            _log.warning("collector %s failed: %s", collector.name, error)
            reason = error.reason if isinstance(error, CollectorError) else str(error)
            self._note(f"collector {collector.name} failed: {reason or type(error).__name__}")
            if collector in self._collectors:
                self._collectors.remove(collector)
                with contextlib.suppress(Exception):
                    collector.close()
            return _FAILED

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


_FAILED = object()
_STARTING_DEVICE = frozenset({"cupti", "kineto"})


def _since(collected: Collected, origin_ns: int) -> Collected:
    """Return what was collected without the spans that were over before an origin."""
    spans = only(collected.spans, lambda each: each.start_ns + each.duration_ns >= origin_ns)
    return replace(collected, spans=spans)


def open_collecting(occasion: Occasion) -> Collecting:
    """Open the collectors that an occasion wants; what can't be had is noted, never an error."""
    opened: list[Collector] = []
    levels: set[Level] = set()
    missing: dict[str, str] = {}
    notes = []
    for name in dict.fromkeys((*collector_names(), *occasion.switches)):
        switch = occasion.switches.get(name)
        available = availability_of(name) if switch is not False else Availability(())
        gives = {level for level in available.levels if level <= occasion.deepest}
        is_asked = switch is not None and switch is not False
        is_unasked = available.is_asked_for and not is_asked
        if switch is False or is_unasked or occasion.level == Level.NONE:
            continue
        try:
            _check(name, available, occasion, gives)
            options = switch if isinstance(switch, dict) else {}
            opened.append(_opened(name, options, occasion))
        except CollectorError as error:
            missing[name] = error.reason
            if is_asked:
                notes.append(str(error))
        else:
            levels |= gives
    # What is deeper is closer to the block: a shallow one may wait at its end for what is late.
    opened.sort(key=lambda each: each.level)
    return Collecting(opened, frozenset(levels), missing, notes)


def _check(name: str, available: Availability, occasion: Occasion, gives: set[Level]) -> None:
    """Raise CollectorUnavailable where a collector has nothing to give on this occasion."""
    device, framework = occasion.opened.device, occasion.opened.framework
    kind = device if device == "cpu" else "gpu"
    if not available.levels:
        raise CollectorUnavailable(name, available.reason or "it can do nothing here")
    if available.devices and not {device, kind} & set(available.devices):
        raise CollectorUnavailable(name, f"it is for {', '.join(available.devices)}")
    if available.frameworks and framework not in available.frameworks:
        reason = available.reason or f"it is for {', '.join(available.frameworks)}"
        raise CollectorUnavailable(name, reason)
    if not gives:
        shallowest = min(available.levels).name.lower()
        raise CollectorUnavailable(name, f"it begins at level {shallowest}")


def _opened(name: str, options: Mapping[str, Any], occasion: Occasion) -> Collector:
    reopening = occasion.reopening
    scratch = reopening.scratch if reopening is not None else Path()
    try:
        source = collector_named(name)
        _check_options(name, options, getattr(source, "OPTIONS", None))
        return source.open_collector(
            CollectorRequest(occasion.opened, occasion.deepest, options, scratch, reopening)
        )
    except CollectorError:
        raise
    except Exception as error:
        raise CollectorUnavailable(name, str(error) or type(error).__name__) from error


def _check_options(name: str, options: Mapping[str, Any], known: Sequence[str] | None) -> None:
    """Raise CollectorUnavailable for an option that a collector, saying what it knows, does not."""
    for option in options:
        if known is not None and option not in known:
            allowed = ", ".join(known) or "none"
            raise CollectorUnavailable(name, f"unknown option {option!r}; allowed: {allowed}")


def _link(
    recorder: Recorder, spans: Sequence[CollectedSpan], block: int, numbered: int, first: int
) -> None:
    """Record spans from place `first` on, of those whose numbers begin at `numbered`."""
    buffer = recorder.spans
    for number, span in enumerate(spans, start=numbered + first):
        note = _attributes(span.attributes) if span.attributes else b""
        parent = numbered + span.parent if span.parent >= 0 else _UNKNOWN
        row = (number, parent, int(span.level), buffer.name_id(span.name))
        when = (span.start_ns, span.duration_ns, span.thread, _UNKNOWN, block, note)
        buffer.link((*row, *when, int(span.kind), span.correlation))


def _attributes(attributes: Mapping[str, Any]) -> bytes:
    """Return attributes as JSON; a user's may be no such thing, or without end."""
    try:
        text = json_text(dict(attributes))
    except (TypeError, ValueError, RecursionError) as error:
        return json_text({"attributes": f"no JSON: {error}"[:_MOST_REASON]})
    return text if len(text) <= _MOST_BYTES else json_text({"attributes": f"{len(text)} bytes"})


def missing_levels(
    asked: Level, given: frozenset[Level], collecting: Collecting
) -> dict[Level, str]:
    """Return the levels down to `asked` that nothing gives, each with the collectors' reasons."""
    wanted = [level for level in Level if Level.FRAMEWORK <= level <= min(asked, Level.HARDWARE)]
    return {level: _reasons(level, collecting) for level in wanted if level not in given}


def _reasons(level: Level, collecting: Collecting) -> str:
    of_level = _LEVEL_OF.get(level, ())
    told = [
        f"{name}: {collecting.missing[name]}" for name in of_level if name in collecting.missing
    ]
    return "; ".join(told)


_LEVEL_OF: Mapping[Level, tuple[str, ...]] = {
    Level.LIBRARY: ("onednn", "cudalibs"),
    Level.HARDWARE: ("ncu", "perf"),
}
"""Shipped collectors whose absence explains that of a level."""
