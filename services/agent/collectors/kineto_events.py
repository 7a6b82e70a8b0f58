"""Kineto's raw events to spans. Pure.

A kernel and the API call that launched it have the same correlation id; layers come from the
forward wrapper, not from here. Names tell what an event is: torch 2.11 has no kind of activity,
and no grid, block or bytes either. Calls that only ask (cudaGetLastError, cudaFuncGetAttributes,
…) are left out: there are as many of them as launches.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from mlscope.counts import many, verb
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import Collected, CollectedSpan
from services.agent.collectors.cupti_clock import ClockMap
from services.agent.collectors.cupti_threads import thread_of
from services.agent.collectors.stream_capture import captured

_CALL = re.compile(
    r"cu(da)?(Launch|Graph|Mem|Malloc|Free|Host|Stream(Sync|Wait)|Event|Device(Sync))"
)
_LAUNCH = re.compile(r"cu(da)?(Launch|Graph(Launch|Exec)|Mem(cpy|set))")
_KERNEL_LAUNCH = re.compile(r"cu(da)?Launch(Cooperative)?Kernel")
_CAPTURE = re.compile(r"cu(da)?Stream(Begin|End)Capture")
_COPY_KIND = re.compile(r"Memcpy (\w+)")


@dataclass(frozen=True, slots=True)
class Event:
    """What is used of one event of Kineto's; times are its clock's, in nanoseconds."""

    name: str
    is_device: bool
    start_ns: int
    duration_ns: int
    correlation: int
    device: int
    #: the stream of device work, the thread of an API call
    resource: int
    is_annotation: bool = False


@dataclass(slots=True)
class _Counts:
    """What was seen of one session."""

    launched: set[int] = field(default_factory=set)
    ran: set[int] = field(default_factory=set)
    called: set[int] = field(default_factory=set)
    #: launches of kernels, and where captures of streams begin and end
    captures: list[tuple[int, int, int, str]] = field(default_factory=list)


def spans_of(
    events: Iterable[Event], clock: ClockMap, threads: Mapping[int, int] | None = None
) -> Collected:
    """Return the kernels, copies, sets and API calls from the clock's first pair on.

    `threads` are the system's numbers of threads by the low 32 bits of their pthread, which is
    how Kineto names a thread that it has not met. `dropped` are kernels that were launched and
    left no record. Kernels whose launch is missing are named in the notes: they stay
    unattributed.
    """
    counts = _Counts()
    spans = tuple(_spans(events, clock, counts, threads or {}))
    lost = counts.launched - counts.ran
    if lost:
        lost -= captured(counts.captures)
    orphans = counts.ran - counts.called
    notes = []
    if lost:
        notes.append(f"{many(len(lost), 'launched kernel')} left no record")
    if orphans:
        one, more = "kernel or copy has", "kernels or copies have"
        notes.append(f"{len(orphans)} {verb(len(orphans), one, more)} no API call")
    return Collected(spans, dropped=len(lost), notes=tuple(notes))


def _spans(
    events: Iterable[Event], clock: ClockMap, counts: _Counts, threads: Mapping[int, int]
) -> Iterator[CollectedSpan]:
    first_ns = clock.first.foreign_ns
    for event in events:
        if event.is_annotation or event.start_ns < first_ns:
            continue
        if event.is_device:
            counts.ran.add(event.correlation)
            yield _device_span(event, clock)
            continue
        is_launch = bool(_KERNEL_LAUNCH.match(event.name))
        if is_launch or _CAPTURE.match(event.name):
            told = (event.resource, event.start_ns, event.correlation, event.name)
            counts.captures.append(told)
        if _CALL.match(event.name):
            counts.called.add(event.correlation)
            if is_launch:
                counts.launched.add(event.correlation)
            yield _call_span(event, clock, threads)


def _device_span(event: Event, clock: ClockMap) -> CollectedSpan:
    attributes: dict[str, object] = {"device": event.device}
    kind = SpanKind.KERNEL
    if event.name.startswith("Memcpy"):
        kind = SpanKind.COPY
        if found := _COPY_KIND.match(event.name):
            attributes["copy_kind"] = found.group(1)
    elif event.name.startswith("Memset"):
        kind = SpanKind.SET
    return CollectedSpan(
        level=Level.SYSTEM,
        name=event.name,
        start_ns=clock.monotonic(event.start_ns),
        duration_ns=event.duration_ns,
        thread=event.resource,
        kind=kind,
        correlation=event.correlation,
        attributes=attributes,
    )


def _call_span(event: Event, clock: ClockMap, threads: Mapping[int, int]) -> CollectedSpan:
    is_launch = bool(_LAUNCH.match(event.name))
    return CollectedSpan(
        level=Level.SYSTEM,
        name=event.name,
        start_ns=clock.monotonic(event.start_ns),
        duration_ns=event.duration_ns,
        thread=thread_of(event.resource, threads),
        kind=SpanKind.LAUNCH if is_launch else SpanKind.HOST,
        correlation=event.correlation,
    )


def aligned_layers(replayed: Sequence[str], eager: Sequence[tuple[str, str]]) -> list[str | None]:
    """Return the layer of each kernel of a CUDA graph's replay.

    One API call launches them all, so no launch tells: but the graph was captured from a call
    that ran the same kernels in the same order on its stream. `eager` is that order as (kernel,
    layer). The longest matching runs are taken (difflib's Ratcliff-Obershelp); a kernel outside
    of them, as one the graph's capture left out, has no layer.
    """
    layers: list[str | None] = [None] * len(replayed)
    matcher = SequenceMatcher(None, replayed, [name for name, _ in eager], autojunk=False)
    for block in matcher.get_matching_blocks():
        for step in range(block.size):
            layers[block.a + step] = eager[block.b + step][1]
    return layers
