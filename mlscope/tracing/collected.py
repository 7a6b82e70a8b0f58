"""Spans and samples that a collector recorded in a block, in the clock of the process. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.batch import SpanKind
from schemas.level import Level


@dataclass(frozen=True, slots=True)
class CollectedSpan:
    """One row: absolute CLOCK_MONOTONIC nanoseconds; the duration of a sample or marker is 0.

    `thread` is the system's thread id, or the stream of work on a device. `correlation` joins a
    LAUNCH with the work that it started, -1 none. `attributes` become JSON; those of a sample are
    {"value": x, "unit": "W"}. `parent` is the place of the parent among the block's spans; -1
    where the parent is found by time.
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
    """The spans of a block; `dropped` records were lost, `notes` become caveats."""

    spans: Sequence[CollectedSpan] = ()
    dropped: int = 0
    notes: Sequence[str] = ()
