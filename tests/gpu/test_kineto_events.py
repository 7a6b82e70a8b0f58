"""Kineto's events of an H200, replayed: two calls of ResNet-50 at batch 1, and a graph's replay."""

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("polars")

import polars as pl

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import Collected
from services.agent.collectors.cupti.clock import ClockMap, Pair
from services.agent.collectors.kineto.events import Event, spans_of
from services.analyzer.correlation.graphs import aligned
from tests.gpu.recordings import recorded

DEVICE_KINDS = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.SET)


@pytest.fixture(scope="module")
def recording() -> Any:
    return recorded("kineto_resnet50_b1.json")


def clock_of(recording: Any) -> ClockMap:
    first, last = (Pair(*each) for each in recording["pairs"])
    return ClockMap(first, last)


def events_of(recording: Any) -> list[Event]:
    return [Event(*each) for each in recording["events"]]


def collected_of(recording: Any, **replaced: Any) -> Collected:
    events = replaced.get("events", events_of(recording))
    threads = {events[0].resource & 0xFFFFFFFF: recorded("kineto_resnet50_b1.json")["native"]}
    return spans_of(events, clock_of(recording), threads)


def test_every_kernel_has_the_call_that_launched_it(recording: Any) -> None:
    spans = collected_of(recording).spans
    launches = {s.correlation: s for s in spans if s.kind == SpanKind.LAUNCH}
    devices = [s for s in spans if s.kind in DEVICE_KINDS]
    assert Counter(s.kind for s in devices) == {
        SpanKind.KERNEL: 436,
        SpanKind.SET: 18,
        SpanKind.COPY: 4,
    }
    assert all(s.correlation in launches for s in devices)
    assert all(launches[s.correlation].start_ns < s.start_ns + 2_000 for s in devices)


def test_calls_come_from_the_thread_that_the_system_knows(recording: Any) -> None:
    calls = [s for s in collected_of(recording).spans if s.kind not in DEVICE_KINDS]
    assert {s.thread for s in calls} == {recording["native"]}
    assert {s.level for s in calls} == {Level.SYSTEM}


def test_launches_lie_in_the_layers_that_were_timed_by_another_clock(recording: Any) -> None:
    layers = [(start, start + length) for _, _, start, length, _ in recording["layers"]]
    launches = [
        s for s in collected_of(recording).spans if s.kind == SpanKind.LAUNCH and "Kernel" in s.name
    ]
    inside = [
        s
        for s in launches
        if any(a <= s.start_ns and s.start_ns + s.duration_ns <= b for a, b in layers)
    ]
    assert len(inside) == len(launches)


def test_calls_that_only_ask_are_left_out(recording: Any) -> None:
    names = {s.name for s in collected_of(recording).spans}
    assert "cudaGetErrorString" in {e.name for e in events_of(recording)}
    assert not names & {"cudaGetErrorString", "cudaPeekAtLastError", "Activity Buffer Request"}


def test_a_launch_without_a_kernel_is_a_dropped_record(recording: Any) -> None:
    assert collected_of(recording).dropped == 0
    kernels = [e for e in events_of(recording) if e.is_device and "Mem" not in e.name]
    kept = [e for e in events_of(recording) if e != kernels[7]]
    lost = collected_of(recording, events=kept)
    assert (lost.dropped, lost.notes) == (1, ("1 launched kernel left no record",))


def test_a_kernel_without_its_launch_is_noted(recording: Any) -> None:
    events = events_of(recording)
    call = next(e for e in events if e.name == "cudaLaunchKernel")
    cut = collected_of(recording, events=[e for e in events if e != call])
    assert cut.dropped == 0
    assert cut.notes == ("1 kernel or copy has no API call",)


def test_what_began_before_the_block_is_left_out(recording: Any) -> None:
    events = events_of(recording)
    middle = events[len(events) // 2].start_ns
    clock = ClockMap(Pair(0, middle), Pair(10**9, middle + 10**9))
    assert all(span.start_ns >= 0 for span in spans_of(events, clock).spans)


def test_a_copy_tells_its_direction(recording: Any) -> None:
    copies = [s for s in collected_of(recording).spans if s.kind == SpanKind.COPY]
    assert [(s.attributes or {})["copy_kind"] for s in copies] == ["HtoD", "DtoH"] * 2


def test_a_graphs_kernels_share_one_launch_and_take_the_eager_order(recording: Any) -> None:
    graph = recording["graph"]
    spans = spans_of(events_of(graph), clock_of(graph)).spans
    replayed = [s for s in spans if s.kind == SpanKind.KERNEL]
    assert len({s.correlation for s in replayed}) == 1
    eager = [s for s in collected_of(recording).spans if s.kind == SpanKind.KERNEL]
    once = sorted(eager, key=lambda s: s.start_ns)[: len(eager) // 2]
    order = pl.DataFrame({"name": [s.name for s in once], "layer": range(len(once))})
    layers = aligned([s.name for s in sorted(replayed, key=lambda s: s.start_ns)], order)
    assert layers == order["layer"].to_list()


def test_a_kernel_that_the_eager_run_has_not_gets_no_layer() -> None:
    eager = pl.DataFrame({"name": ["gemm", "relu", "gemm"], "layer": [1, 2, 3]})
    assert aligned(["gemm", "relu", "fused", "gemm"], eager) == [1, 2, None, 3]
    assert aligned(["other"], eager) == [None]
    assert aligned([], eager) == []
