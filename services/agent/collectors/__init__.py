"""Collectors, one per profiler: they record what happens in a block, beyond pipeline and layers.

A package adds one with an entry point in the group `mlscope.collectors`: the collector's name,
which leads to a module (or any object) with

- `open_collector(request: CollectorRequest) -> Collector`, which raises `CollectorUnavailable`
  where it can't collect anything in this session, and
- `availability() -> Availability`: what it collects on this machine and, where that is not all, the
  reason. It imports no framework, because agents call it when they announce themselves.

It may have `OPTIONS: tuple[str, ...]`, the names of its options: a request with any other gets a
caveat. Without it, the collector checks its options itself. It may have `prepare(options) -> None`,
which a worker calls before it opens the model of a request that switches the collector on: for
preparation that the model's code depends on (`preparing`).

A session opens the collectors that a run's level and its request select. Around each block, `begin`
is called just before the timed part and `end` just after; slow work belongs in `end`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast

from mlscope.tracing.collected import Collected, CollectedSpan
from schemas.level import Level
from services.agent.collectors.errors import (
    CollectorError,
    CollectorUnavailable,
    UnknownCollector,
    calling_collector,
)
from services.agent.plug_ins import plug_ins
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
class Availability:
    """What a collector collects on this machine: `levels`, none where it is unavailable.

    `reason` says why it is not all that it could be, '' where it is. Empty `devices` and
    `frameworks` mean any. One with `is_asked_for` is off until a request switches it on.
    """

    levels: tuple[Level, ...]
    reason: str = ""
    devices: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    is_asked_for: bool = False


class Reopenable(Protocol):
    """A session that another process can open too, to replay it."""

    @property
    def scratch(self) -> Path:
        """Where this process may write."""
        ...

    def write(self, path: Path, /) -> None:
        """Write the file that the other process reads. Raises OSError."""
        ...


@dataclass(frozen=True, slots=True)
class CollectorRequest:
    """The session and run to collect in, and the request's options for this collector."""

    opened: Opened
    level: Level
    options: Mapping[str, Any] = field(default_factory=dict)
    #: the folder where it may write files while it is open
    scratch: Path = Path()
    #: how another process opens the same session to replay it; None in tests
    reopening: Reopenable | None = None


class Collector(Protocol):
    """One source of spans, open for one run. Called by the worker's main thread."""

    @property
    def name(self) -> str:
        """The name by which requests switch it."""
        ...

    @property
    def level(self) -> Level:
        """The deepest level of its spans."""
        ...

    def begin(self) -> None:
        """Begin to collect, just before a block's timed part."""
        ...

    def end(self) -> Collected:
        """Return the block's spans, just after its timed part; called once per `begin`."""
        ...

    def close(self) -> None:
        """Free its resources; called once, at the end of its run."""
        ...


class CollectorSource(Protocol):
    """The object that an entry point leads to, usually a module."""

    def open_collector(self, request: CollectorRequest, /) -> Collector:
        """Return a collector for one run. Raises CollectorUnavailable."""
        ...

    def availability(self) -> Availability:
        """Return what it collects on this machine, without importing a framework."""
        ...


SHIPPED: Mapping[str, str] = MappingProxyType(
    {
        "cudalibs": "services.agent.collectors.cudalibs.collector",
        "cupti": "services.agent.collectors.cupti.collector",
        "energy": "services.agent.collectors.energy",
        "kineto": "services.agent.collectors.kineto.collector",
        "markers": "services.agent.collectors.markers",
        "ncu": "services.agent.collectors.ncu.collector",
        "nvml": "services.agent.collectors.nvml.collector",
        "nvtx": "services.agent.collectors.nvtx.collector",
        "onednn": "services.agent.collectors.onednn",
        "otlp": "services.agent.collectors.otlp.collector",
        "perf": "services.agent.collectors.perf.collector",
        "resource": "services.agent.collectors.resource",
    }
)
"""The shipped collectors, found without entry points."""


def collector_names() -> tuple[str, ...]:
    """Return the names of all collectors, importing none."""
    return tuple(sorted({*SHIPPED, *plug_ins(GROUP)}))


def collector_named(name: str) -> CollectorSource:
    """Return a collector's source by name. Raises UnknownCollector, CollectorUnavailable."""
    try:
        if point := plug_ins(GROUP).get(name):
            return cast("CollectorSource", point.load())
        if name in SHIPPED:
            return cast("CollectorSource", import_module(SHIPPED[name]))
    except (ImportError, AttributeError) as error:
        raise CollectorUnavailable(name, str(error)) from error
    raise UnknownCollector(name, collector_names())


def availability_of(name: str) -> Availability:
    """Return what a collector collects here; no level where it can't be loaded."""
    try:
        with calling_collector(name):
            return collector_named(name).availability()
    except CollectorError as error:
        return Availability((), error.reason)
