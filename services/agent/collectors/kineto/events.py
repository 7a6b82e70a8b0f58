"""Kineto's raw events as spans. Pure.

A kernel and the API call that launched it have the same correlation id; layers come from wrapping
the modules' forwards, not from here. Names distinguish the events, because torch 2.11 gives neither
a kind of activity nor grid, block and bytes. Calls that only query (cudaGetLastError,
cudaFuncGetAttributes, …) are left out: there are as many of them as launches.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mlscope.tracing.collected import Collected, CollectedSpan
from mlscope.tracing.copy_kinds import COPY_KINDS
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors.cupti.clock import ClockMap
from services.agent.collectors.launches import (
    KERNEL_LAUNCH,
    Call,
    captured,
    is_capture_call,
    unmatched_notes,
)
from services.agent.collectors.threads import thread_of

_CALL = re.compile(
    r"cu(da)?(Launch|Graph|Mem|Malloc|Free|Host|Stream(Sync|Wait)|Event|Device(Sync))"
)
_LAUNCH = re.compile(r"cu(da)?(Launch|Graph(Launch|Exec)|Mem(cpy|set))")
_COPY_KIND = re.compile(rf"Memcpy ({'|'.join(COPY_KINDS)})\b")


@dataclass(frozen=True, slots=True)
class Event:
    """The parts of one of Kineto's events that are used; times are its clock's, in ns."""

    name: str
    is_device: bool
    start_ns: int
    duration_ns: int
    correlation: int
    device: int
    #: the stream of device work, the thread of an API call
    resource: int
    is_annotation: bool = False

    def device_span(self, clock: ClockMap) -> CollectedSpan:
        """Return the kernel, copy or set as a span; `clock` maps its times to CLOCK_MONOTONIC."""
        attributes: dict[str, object] = {"device": self.device}
        kind = SpanKind.KERNEL
        if self.name.startswith("Memcpy"):
            kind = SpanKind.COPY
            if match := _COPY_KIND.match(self.name):
                attributes["copy_kind"] = match.group(1)
        elif self.name.startswith("Memset"):
            kind = SpanKind.SET
        return CollectedSpan(
            level=Level.SYSTEM,
            name=self.name,
            start_ns=clock.monotonic(self.start_ns),
            duration_ns=self.duration_ns,
            thread=self.resource,
            kind=kind,
            correlation=self.correlation,
            attributes=attributes,
        )


def spans_of(
    events: Iterable[Event], clock: ClockMap, threads: Mapping[int, int] | None = None
) -> Collected:
    """Return the kernels, copies, sets and API calls from the clock's first pair on.

    `events` are those of one session, in any order. `clock` maps Kineto's times to CLOCK_MONOTONIC.
    `threads`: the system's thread ids by the low 32 bits of their pthread, by which Kineto names
    threads that it does not know. `dropped` counts kernels that were launched and left no record.
    Kernels without a launch stay unattributed; a note counts them.
    """
    launched, ran, called = set[int](), set[int](), set[int]()
    launches_and_captures: list[Call] = []
    spans = []
    for event in events:
        if event.is_annotation or event.start_ns < clock.first.foreign_ns:
            continue
        if event.is_device:
            ran.add(event.correlation)
            spans.append(event.device_span(clock))
            continue
        is_kernel_launch = bool(KERNEL_LAUNCH.match(event.name))
        if is_kernel_launch or is_capture_call(event.name):
            call = (event.resource, event.start_ns, event.correlation, event.name)
            launches_and_captures.append(call)
        if not _CALL.match(event.name):
            continue
        called.add(event.correlation)
        if is_kernel_launch:
            launched.add(event.correlation)
        span = CollectedSpan(
            level=Level.SYSTEM,
            name=event.name,
            start_ns=clock.monotonic(event.start_ns),
            duration_ns=event.duration_ns,
            thread=thread_of(event.resource, threads or {}),
            kind=SpanKind.LAUNCH if _LAUNCH.match(event.name) else SpanKind.HOST,
            correlation=event.correlation,
        )
        spans.append(span)
    unrecorded = launched - ran
    if unrecorded:
        unrecorded -= captured(launches_and_captures)
    notes = unmatched_notes(len(unrecorded), len(ran - called))
    return Collected(tuple(spans), dropped=len(unrecorded), notes=notes)
