"""Launches that a stream's capture took for a graph ran nothing: no record of theirs is lost."""

import pytest

from schemas.batch import SpanKind
from services.agent.collectors.cupti import records as cupti_records
from services.agent.collectors.cupti.clock import ClockMap, Pair
from services.agent.collectors.cupti.records import Call, DeviceWork, Records
from services.agent.collectors.kineto import events as kineto_events
from services.agent.collectors.kineto.events import Event
from services.agent.collectors.launches import captured

PLAIN = ClockMap(Pair(0, 0), Pair(1000, 1000))
LAUNCH = "cudaLaunchKernel"
BEGIN, END = "cudaStreamBeginCapture", "cudaStreamEndCapture"
CALLS = [(1, 100, 1, BEGIN), (1, 102, 2, LAUNCH), (1, 104, 3, END), (1, 110, 4, "cudaGraphLaunch")]


@pytest.mark.parametrize(
    ("calls", "inside"),
    [
        (CALLS, {2}),
        ([*CALLS[::-1]], {2}),
        ([*CALLS, (2, 103, 5, LAUNCH), (1, 120, 6, LAUNCH)], {2}),
        (CALLS[1:], {2}),
        (CALLS[:2], {2}),
        ([(1, 90, 9, LAUNCH), *CALLS], {2}),
        ([(1, 1, 1, "cuStreamBeginCapture_v2"), (1, 2, 2, LAUNCH)], {2}),
        ([(1, 102, 2, LAUNCH)], set()),
    ],
)
def test_what_lies_in_a_capture_of_its_thread(
    calls: list[tuple[int, int, int, str]], inside: set[int]
) -> None:
    assert captured(calls) == inside


@pytest.mark.parametrize(("ran", "dropped"), [((4, 6), 0), ((4,), 1)])
def test_only_what_was_launched_outside_can_be_lost(ran: tuple[int, ...], dropped: int) -> None:
    told = [*CALLS, (1, 120, 6, LAUNCH)]
    calls = [Call(name, False, at, at + 1, number, thread) for thread, at, number, name in told]
    works = [DeviceWork(SpanKind.KERNEL, "k", 130, 140, number, 0, 7) for number in ran]
    found = cupti_records.spans_of(Records(calls, works), PLAIN, {})
    assert (found.dropped, len(found.notes)) == (dropped, dropped)
    events = [Event(name, False, at, 1, number, 0, thread) for thread, at, number, name in told]
    events += [Event("k", True, 130, 10, number, 0, 7) for number in ran]
    found = kineto_events.spans_of(events, PLAIN)
    assert (found.dropped, len(found.notes)) == (dropped, dropped)
