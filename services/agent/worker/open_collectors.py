"""The collectors of one run, chosen by its level and request; they begin and end with blocks."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from mlscope.manifests.device_names import is_gpu
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
from services.agent.collectors.errors import (
    CollectorError,
    CollectorForOtherDevices,
    CollectorUnavailable,
    calling_collector,
)
from services.agent.collectors.nesting import selected
from services.agent.predictors import Opened
from services.agent.worker.recorder import RunRecorder

_log = logging.getLogger(__name__)
_CHUNK_SPANS = 20_000
_UNKNOWN = -1
_MOST_ATTRIBUTE_BYTES = 16 << 10
_MOST_REASON_CHARACTERS = 200

T = TypeVar("T")
Switches = Mapping[str, bool | dict[str, Any]]
"""By collector: false for off, true for on, options for on with these options."""


@dataclass(frozen=True, slots=True)
class CollectorContext:
    """What a run's collectors are opened for."""

    opened: Opened
    level: Level
    #: the session's variant: counters are read only in sessions for them
    variant: str = ""
    switches: Switches = field(default_factory=dict)
    reopening: Reopenable | None = None

    @property
    def deepest(self) -> Level:
        """The deepest level of its collectors: counters only where nothing else is timed."""
        return min(self.level, Level.HARDWARE if self.variant == "counters" else Level.SYSTEM)

    @property
    def scratch(self) -> Path:
        """The folder that its collectors may write to."""
        return self.reopening.scratch if self.reopening is not None else Path()

    def levels_of(self, name: str, availability: Availability) -> set[Level]:
        """Return the levels that a collector has here. Raises CollectorUnavailable without any."""
        device, framework = self.opened.device, self.opened.framework
        kind = "gpu" if is_gpu(device) else device
        if not availability.levels:
            raise CollectorUnavailable(
                name, availability.reason or "it can't collect anything here"
            )
        if availability.devices and not {device, kind} & set(availability.devices):
            raise CollectorForOtherDevices(name, f"it is for {', '.join(availability.devices)}")
        if availability.frameworks and framework not in availability.frameworks:
            reason = availability.reason or f"it is for {', '.join(availability.frameworks)}"
            raise CollectorUnavailable(name, reason)
        levels = {level for level in availability.levels if level <= self.deepest}
        if not levels:
            shallowest = min(availability.levels)
            reason = f"it begins at level {shallowest.name.lower()}"
            if self.deepest < shallowest <= self.level:
                reason = "hardware counters are read in runs of their own"
            raise CollectorUnavailable(name, reason)
        return levels

    def open_collector(self, name: str) -> Collector:
        """Open a collector with its requested options.

        Raises CollectorUnavailable, also for an unknown option.
        """
        switch = self.switches.get(name)
        options = switch if isinstance(switch, dict) else {}
        with calling_collector(name):
            source = collector_named(name)
            known_options = getattr(source, "OPTIONS", options)
            unknown = [option for option in options if option not in known_options]
            if unknown:
                allowed = ", ".join(known_options) or "none"
                reason = f"unknown option {unknown[0]!r}; allowed: {allowed}"
                raise CollectorUnavailable(name, reason)
            request = CollectorRequest(
                self.opened, self.deepest, options, self.scratch, self.reopening
            )
            return source.open_collector(request)


class OpenCollectors:
    """The open collectors of a run, what they collected in the last block, and what failed."""

    def __init__(
        self,
        collectors: Sequence[Collector] = (),
        levels: frozenset[Level] = frozenset(),
        missing: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """Take open `collectors`, the shallowest first, and the `levels` that they collect.

        `missing` has the reason of each one that is not open, and `notes` are for the run's reader.
        """
        self._collectors = list(collectors)
        #: the levels of its collectors
        self.levels = levels
        #: by collector for this device that is not open, the reason
        self.missing: Mapping[str, str] = missing or {}
        #: what a reader of the run must know
        self.notes = list(notes)
        self.dropped = 0
        self._begun: list[Collector] = []
        self._collected: list[tuple[Collector, Collected]] = []
        #: whether it observed an opening, which is its only block
        self._observed_opening = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the open collectors."""
        return tuple(collector.name for collector in self._collectors)

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Let collectors begin, the last one innermost, and end in reverse order."""
        if self._observed_opening:
            yield
            return
        self._begun = []
        for collector in list(self._collectors):
            self._call(collector, collector.begin)
            if collector in self._collectors:
                self._begun.append(collector)
        try:
            yield
        finally:
            for collector in reversed(self._begun):
                collected = self._call(collector, collector.end)
                if isinstance(collected, Collected):
                    self._collected.append((collector, collected))

    @contextlib.contextmanager
    def observe_opening(self) -> Iterator[None]:
        """Let collectors observe the opening of a model as their only block; a run attaches it.

        What they need of the device is there before the model is opened.
        """
        with self.block():
            yield
        self._observed_opening = True
        if _STARTING_DEVICE & {*self.names}:
            self._note(
                "the device was started before the opening, to trace it: the time to load the model"
                " does not include that"
            )

    def attach(self, recorder: RunRecorder, block: int) -> None:
        """Record what the last `block` left with a `recorder`, in parts; count what was dropped."""
        last_collected, self._collected = self._collected, []
        if self._observed_opening:
            # Another attempt attaches the same opening.
            self._collected, self.dropped = last_collected, 0
            origin_ns = recorder.attempt.origin_ns

            def ended_later(span: CollectedSpan) -> bool:
                return span.start_ns + span.duration_ns >= origin_ns

            last_collected = [
                (collector, replace(collected, spans=selected(collected.spans, ended_later)))
                for collector, collected in last_collected
            ]
        for collector, collected in last_collected:
            self.dropped += collected.dropped
            if collected.dropped:
                self._note(f"{collector.name}: {collected.dropped} records were dropped")
            for note in collected.notes:
                self._note(f"{collector.name}: {note}")
            first_id = recorder.spans.reserve(len(collected.spans))
            for offset in range(0, len(collected.spans), _CHUNK_SPANS):
                spans = collected.spans[offset : offset + _CHUNK_SPANS]
                _record_spans(recorder, spans, block, first_id, offset)
                recorder.flush()

    def close(self) -> None:
        """Close every collector."""
        while self._collectors:
            collector = self._collectors.pop()
            self._call(collector, collector.close)

    def _call(self, collector: Collector, method: Callable[[], T]) -> T | None:
        """Call a collector; one that fails is closed, noted and left out from then on.

        The run does not pay any longer for what it holds (descriptors, CUPTI, a thread).
        """
        try:
            with calling_collector(collector.name):
                return method()
        except CollectorError as error:
            _log.warning("collector %s failed: %s", collector.name, error.reason)
            self._note(f"collector {collector.name} failed: {error.reason}")
            if collector not in self._collectors:
                return None
            self._collectors.remove(collector)
            with contextlib.suppress(Exception):
                collector.close()
            return None

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


_STARTING_DEVICE = frozenset({"cupti", "kineto"})


def open_collectors(context: CollectorContext) -> OpenCollectors:
    """Open the collectors for a context; those that can't be opened are noted, never an error."""
    opened: list[Collector] = []
    levels: set[Level] = set()
    missing: dict[str, str] = {}
    notes = []
    for name in dict.fromkeys((*collector_names(), *context.switches)):
        switch = context.switches.get(name)
        if switch is False or context.level == Level.NONE:
            continue
        availability = availability_of(name)
        if availability.is_asked_for and switch is None:
            continue
        is_available = False
        try:
            collector_levels = context.levels_of(name, availability)
            is_available = True
            opened.append(context.open_collector(name))
        except CollectorError as error:
            if not isinstance(error, CollectorForOtherDevices):
                missing[name] = error.reason
            # Another collector may have the same level: its note would not name this one.
            if switch is not None or (is_available and name not in _NAMED_BY_LEVEL_NOTES):
                notes.append(str(error))
        else:
            levels |= collector_levels
    # Deeper ones are closer to the block: a shallow one may wait at its end for late records.
    opened.sort(key=lambda collector: collector.level)
    return OpenCollectors(opened, frozenset(levels), missing, notes)


def _record_spans(
    recorder: RunRecorder, spans: Sequence[CollectedSpan], block: int, first_id: int, offset: int
) -> None:
    """Record spans of a block; `offset` is that of the first among all with ids from `first_id`."""
    buffer = recorder.spans
    for span_id, span in enumerate(spans, start=first_id + offset):
        attributes = _attribute_json(span.attributes) if span.attributes else b""
        parent = first_id + span.parent if span.parent >= 0 else _UNKNOWN
        buffer.link(
            (
                span_id,
                parent,
                int(span.level),
                buffer.name_id(span.name),
                span.start_ns,
                span.duration_ns,
                span.thread,
                _UNKNOWN,
                block,
                attributes,
                int(span.kind),
                span.correlation,
            )
        )


def _attribute_json(attributes: Mapping[str, Any]) -> bytes:
    """Return attributes as JSON; a user's may not be JSON, or too large."""
    try:
        text = json_text(dict(attributes))
    except (TypeError, ValueError, RecursionError) as error:
        return json_text({"attributes": f"no JSON: {error}"[:_MOST_REASON_CHARACTERS]})
    if len(text) > _MOST_ATTRIBUTE_BYTES:
        return json_text({"attributes": f"{len(text)} bytes"})
    return text


def missing_levels(
    requested: Level, traced: frozenset[Level], collectors: OpenCollectors
) -> dict[Level, str]:
    """Return the levels down to `requested` that are not `traced`, with reasons of `collectors`."""
    levels = [
        level for level in Level if Level.FRAMEWORK <= level <= min(requested, Level.HARDWARE)
    ]
    return {
        level: "; ".join(
            f"collector {name}: {collectors.missing[name]}"
            for name in _COLLECTORS_OF_LEVEL.get(level, ())
            if name in collectors.missing
        )
        for level in levels
        if level not in traced
    }


_COLLECTORS_OF_LEVEL: Mapping[Level, tuple[str, ...]] = {
    Level.LIBRARY: ("onednn", "cudalibs"),
    Level.HARDWARE: ("ncu", "perf"),
}
"""Shipped collectors whose absence explains that of a level."""

_NAMED_BY_LEVEL_NOTES = frozenset(chain.from_iterable(_COLLECTORS_OF_LEVEL.values()))
