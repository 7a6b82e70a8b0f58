"""Records of CUPTI's activities to spans. Pure.

A kernel and the API call that launched it share a correlation id; a CUDA graph's kernels share
their graph launch's, and are told apart by `graph_node`. A runtime call may make a driver call:
of the two the runtime's counts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mlscope.counts import many, verb
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import Collected, CollectedSpan
from services.agent.collectors.cupti_clock import ClockMap
from services.agent.collectors.cupti_names import demangled
from services.agent.collectors.cupti_threads import thread_of
from services.agent.collectors.stream_capture import captured

_SUFFIX = re.compile(r"(_ptsz|_ptds)?_v\d+$")
_LAUNCH = re.compile(r"cu(da)?(Launch|GraphLaunch|Mem(cpy|set))")
_KERNEL_LAUNCH = re.compile(r"cu(da)?Launch(Cooperative)?Kernel")
_KEPT = re.compile(
    r"cu(da)?(Launch|Graph|Mem|Malloc|Free|Host|Stream(Sync|Wait)|Event|Device(Sync)|Ctx(Sync))"
)
#: CUpti_ActivityMemcpyKind
_COPY_KINDS = ("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")


@dataclass(frozen=True, slots=True)
class Call:
    """One API call; `is_driver` of the driver's API. Times are CUPTI's clock."""

    name: str
    is_driver: bool
    start_ns: int
    end_ns: int
    correlation: int
    #: the low 32 bits of its pthread
    thread: int


@dataclass(frozen=True, slots=True)
class Work:
    """One kernel, copy or set on a device."""

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
    """What one block left: `dropped` records found no buffer."""

    calls: Sequence[Call]
    works: Sequence[Work]
    dropped: int = 0


def api_name(callback: str) -> str:
    """Return an API function's name of its callback's: `cudaLaunchKernel_v7000`."""
    return _SUFFIX.sub("", callback)


def copy_name(kind: int) -> str:
    """Return what a copy goes from and to (CUpti_ActivityMemcpyKind): HtoD, DtoH and so on."""
    return _COPY_KINDS[kind] if 0 <= kind < len(_COPY_KINDS) else ""


def spans_of(records: Records, clock: ClockMap, threads: Mapping[int, int]) -> Collected:
    """Return the spans of a block; what began before the clock's first pair is left out."""
    first_ns = clock.first.foreign_ns
    works = [work for work in records.works if work.start_ns >= first_ns]
    runtime = {call.correlation for call in records.calls if not call.is_driver}
    calls = [
        call
        for call in records.calls
        if call.start_ns >= first_ns and not (call.is_driver and call.correlation in runtime)
    ]
    launched = {call.correlation for call in calls if _KERNEL_LAUNCH.match(call.name)}
    ran = {work.correlation for work in works}
    lost = launched - ran
    if lost:
        lost -= captured(
            (call.thread, call.start_ns, call.correlation, call.name) for call in calls
        )
    orphans = ran - {call.correlation for call in calls}
    notes = []
    if lost:
        notes.append(f"{many(len(lost), 'launched kernel')} left no record")
    if orphans:
        one, more = "kernel or copy has", "kernels or copies have"
        notes.append(f"{len(orphans)} {verb(len(orphans), one, more)} no API call")
    spans = (*_calls(calls, clock, threads), *_works(works, clock))
    return Collected(spans, dropped=max(records.dropped, len(lost)), notes=tuple(notes))


def _calls(
    calls: Sequence[Call], clock: ClockMap, threads: Mapping[int, int]
) -> Iterator[CollectedSpan]:
    for call in calls:
        if _KEPT.match(call.name):
            yield CollectedSpan(
                level=Level.SYSTEM,
                name=call.name,
                start_ns=clock.monotonic(call.start_ns),
                duration_ns=call.end_ns - call.start_ns,
                thread=thread_of(call.thread, threads),
                kind=SpanKind.LAUNCH if _LAUNCH.match(call.name) else SpanKind.HOST,
                correlation=call.correlation,
            )


def _works(works: Sequence[Work], clock: ClockMap) -> Iterator[CollectedSpan]:
    for work in works:
        yield CollectedSpan(
            level=Level.SYSTEM,
            name=demangled(work.name),
            start_ns=clock.monotonic(work.start_ns),
            duration_ns=work.end_ns - work.start_ns,
            thread=work.stream,
            kind=work.kind,
            correlation=work.correlation,
            attributes={"device": work.device, **work.attributes},
        )
