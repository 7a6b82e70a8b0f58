"""Records of CUPTI's activities as spans.

A kernel and the API call that launched it share a correlation id. The kernels of a CUDA graph share
that of the graph's launch, and are distinguished by `graph_node`. A runtime call may make a driver
call with the same id: only the runtime's is a span.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlscope.tracing.collected import Collected, CollectedSpan
from mlscope.tracing.cpp_names import demangled
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors.cupti.clock import ClockMap
from services.agent.collectors.launches import KERNEL_LAUNCH, captured, unmatched_notes
from services.agent.collectors.threads import thread_of

_SUFFIX = re.compile(r"(_ptsz|_ptds)?_v\d+$")
_LAUNCH = re.compile(r"cu(da)?(Launch|GraphLaunch|Mem(cpy|set))")
_CALL = re.compile(
    r"cu(da)?(Launch|Graph|Mem|Malloc|Free|Host|Stream(Sync|Wait)|Event|Device(Sync)|Ctx(Sync))"
)


@dataclass(frozen=True, slots=True)
class Call:
    """One API call; `is_driver`: of the driver's API. Times are CUPTI's clock, in ns."""

    name: str
    is_driver: bool
    start_ns: int
    end_ns: int
    correlation: int
    #: the low 32 bits of its pthread
    thread: int


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """One kernel, copy or set on a device. Times are CUPTI's clock, in ns."""

    kind: SpanKind
    name: str
    start_ns: int
    end_ns: int
    correlation: int
    device: int
    stream: int
    attributes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one block; `dropped` more found no buffer."""

    calls: Sequence[Call]
    device_work: Sequence[DeviceWork]
    dropped: int = 0


def api_name(callback: str) -> str:
    """Return the API function's name from its callback's, such as `cudaLaunchKernel_v7000`."""
    return _SUFFIX.sub("", callback)


def spans_of(records: Records, clock: ClockMap, threads: Mapping[int, int]) -> Collected:
    """Return the spans of a block's `records` from the clock's first pair on.

    `clock` maps CUPTI's times to CLOCK_MONOTONIC. `threads`: the system's thread ids by the low 32
    bits of their pthread.
    """
    first_ns = clock.first.foreign_ns
    device_work = [work for work in records.device_work if work.start_ns >= first_ns]
    by_runtime = {call.correlation for call in records.calls if not call.is_driver}
    calls = [
        call
        for call in records.calls
        if call.start_ns >= first_ns and not (call.is_driver and call.correlation in by_runtime)
    ]
    launched = {call.correlation for call in calls if KERNEL_LAUNCH.match(call.name)}
    ran = {work.correlation for work in device_work}
    unrecorded = launched - ran
    if unrecorded:
        unrecorded -= captured(
            (call.thread, call.start_ns, call.correlation, call.name) for call in calls
        )
    call_spans = [
        CollectedSpan(
            level=Level.SYSTEM,
            name=call.name,
            start_ns=clock.monotonic(call.start_ns),
            duration_ns=call.end_ns - call.start_ns,
            thread=thread_of(call.thread, threads),
            kind=SpanKind.LAUNCH if _LAUNCH.match(call.name) else SpanKind.HOST,
            correlation=call.correlation,
        )
        for call in calls
        if _CALL.match(call.name)
    ]
    device_spans = [
        CollectedSpan(
            level=Level.SYSTEM,
            name=demangled(work.name),
            start_ns=clock.monotonic(work.start_ns),
            duration_ns=work.end_ns - work.start_ns,
            thread=work.stream,
            kind=work.kind,
            correlation=work.correlation,
            attributes={"device": work.device, **work.attributes},
        )
        for work in device_work
    ]
    uncalled = ran - {call.correlation for call in calls}
    return Collected(
        (*call_spans, *device_spans),
        dropped=max(records.dropped, len(unrecorded)),
        notes=unmatched_notes(len(unrecorded), len(uncalled)),
    )
