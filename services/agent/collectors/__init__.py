"""Collectors, one profiler a file: what happens in a block, beside spans of pipeline and layers.

A package adds one with an entry point in the group `mlscope.collectors`: the collector's name,
leading to a module (or any object) that has

- `open_collector(request: CollectorRequest) -> Collector`, which raises `CollectorUnavailable`
  where it can do nothing in this session, and
- `availability() -> Availability`: what it gives on this machine and, where that is less than it
  could, why. It imports no framework: agents ask it when they announce themselves.

It may have `OPTIONS: tuple[str, ...]`, the names of options that it knows: a request with any
other is told so. Without, all options are its own to judge. It may have `prepare(options) -> None`,
which a worker calls before it opens the model of a request that switches the collector on: for
what has to be there before the model's code is (`preparing`).

A session opens the collectors that a run's level and its request want. Around each block `begin`
comes just before the timed stretch and `end` just after; what takes time happens in `end`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors.errors import CollectorUnavailable, UnknownCollector
from services.agent.predictors import Opened

GROUP = "mlscope.collectors"

__all__ = [
    "Availability",
    "Collected",
    "CollectedSpan",
    "Collector",
    "CollectorRequest",
    "CollectorSource",
    "CollectorUnavailable",
    "Reopenable",
    "collector_named",
    "collector_names",
]


@dataclass(frozen=True, slots=True)
class CollectedSpan:
    """One row: absolute CLOCK_MONOTONIC nanoseconds; a sample's or marker's duration is 0.

    `thread` is the system's thread id, of work on a device its stream. `correlation` joins a
    LAUNCH with what it started, -1 none. `attributes` become JSON; of a sample they are
    {"value": x, "unit": "W"}. `parent` is the place, among the block's spans, of the one that it
    lies in; -1 where that is to be found by time.
    """

    level: Level
    name: str
    start_ns: int
    duration_ns: int
    thread: int = 0
    kind: SpanKind = SpanKind.HOST
    correlation: int = -1
    attributes: Mapping[str, Any] | None = None
    parent: int = -1


@dataclass(frozen=True, slots=True)
class Collected:
    """What a block left; `dropped` records were lost, `notes` a reader must see."""

    spans: Sequence[CollectedSpan] = ()
    dropped: int = 0
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Availability:
    """What a collector gives on this machine: `levels`, none where it can do nothing.

    `reason` says why it is less than it could be, '' where it is all. Empty `devices` and
    `frameworks` are any. One that `is_asked_for` is closed until a request switches it on.
    """

    levels: tuple[Level, ...]
    reason: str = ""
    devices: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    is_asked_for: bool = False


class Reopenable(Protocol):
    """A session that another process can open as well, to replay it."""

    @property
    def scratch(self) -> Path:
        """Where this process may write."""
        ...

    def write(self, path: Path, /) -> None:
        """Write what the other process needs to a file. Raises OSError."""
        ...


@dataclass(frozen=True, slots=True)
class CollectorRequest:
    """The session and run to collect in; `options` are the request's for this collector."""

    opened: Opened
    level: Level
    options: Mapping[str, Any] = field(default_factory=dict)
    #: where it may write files while it is open
    scratch: Path = Path()
    #: with which another process opens the same session, to replay it; None in tests
    reopening: Reopenable | None = None


class Collector(Protocol):
    """One source of spans, open for one run. The worker's main thread calls it."""

    @property
    def name(self) -> str:
        """Its name, as requests switch it."""
        ...

    @property
    def level(self) -> Level:
        """The deepest level that its spans are of."""
        ...

    def begin(self) -> None:
        """Begin to collect: just before a block's timed stretch."""
        ...

    def end(self) -> Collected:
        """Return what the block left: just after the timed stretch, called once a `begin`."""
        ...

    def close(self) -> None:
        """Free what it holds; called once, when its run is through."""
        ...


class CollectorSource(Protocol):
    """What an entry point leads to: usually a module."""

    def open_collector(self, request: CollectorRequest, /) -> Collector:
        """Return a collector for one run. Raises CollectorUnavailable."""
        ...

    def availability(self) -> Availability:
        """Say what it gives on this machine, importing no framework."""
        ...


SHIPPED: Mapping[str, str] = MappingProxyType(
    {
        "cudalibs": "services.agent.collectors.cudalibs",
        "cupti": "services.agent.collectors.cupti",
        "energy": "services.agent.collectors.energy",
        "kineto": "services.agent.collectors.kineto",
        "markers": "services.agent.collectors.markers",
        "ncu": "services.agent.collectors.ncu",
        "nvml": "services.agent.collectors.nvml",
        "nvtx": "services.agent.collectors.nvtx",
        "onednn": "services.agent.collectors.onednn",
        "otlp": "services.agent.collectors.otlp",
        "perf": "services.agent.collectors.perf",
        "resource": "services.agent.collectors.resource",
    }
)
"""The shipped collectors, found without entry points."""


def collector_names() -> tuple[str, ...]:
    """Return every known collector, importing none."""
    return tuple(sorted({*SHIPPED, *(point.name for point in entry_points(group=GROUP))}))


def collector_named(name: str) -> CollectorSource:
    """Return what opens a collector. Raises UnknownCollector, CollectorUnavailable."""
    try:
        for point in entry_points(group=GROUP, name=name):
            return cast("CollectorSource", point.load())
        if name in SHIPPED:
            return cast("CollectorSource", import_module(SHIPPED[name]))
    except (ImportError, AttributeError) as error:
        raise CollectorUnavailable(name, str(error)) from error
    raise UnknownCollector(name, collector_names())


def availability_of(name: str) -> Availability:
    """Return what a collector gives here; one that can't be loaded gives nothing and says why."""
    try:
        return collector_named(name).availability()
    except (CollectorUnavailable, UnknownCollector) as error:
        return Availability((), error.reason)
    except Exception as error:  # noqa: BLE001 - foreign code must not keep an agent from starting
        return Availability((), str(error) or type(error).__name__)
