"""CUPTI's records of an H200, replayed: JAX's jitted calls in a process without torch."""

import ctypes
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mlscope.tracing.copy_kinds import copy_kind_of
from schemas.batch import SpanKind
from services.agent.collectors.cupti.clock import ClockMap, Pair
from services.agent.collectors.cupti.collector import Subscription, with_graph_layers
from services.agent.collectors.cupti.records import (
    Call,
    DeviceWork,
    Records,
    api_name,
    spans_of,
)
from services.agent.predictors.xla.graphs import Graphable, Graphs
from tests.gpu.recordings import recorded

NAMES = {211: "cudaLaunchKernel_v7000"}


@pytest.fixture(scope="module")
def recording() -> Any:
    return recorded("cupti_jax.json")


@pytest.fixture(scope="module")
def clock(recording: Any) -> ClockMap:
    first, last = (Pair(*each) for each in recording["pairs"])
    return ClockMap(first, last)


def records_of(recording: Any) -> Records:
    calls = [
        Call(f"cuGraphLaunch {r['cbid']}", r["kind"] == 4, r["start"], r["end"], *_of(r))
        for r in recording["records"]
        if r["kind"] in (4, 5)
    ]
    works = [
        DeviceWork(
            SpanKind.KERNEL if r["kind"] == 10 else SpanKind.COPY,
            r.get("name", "Memcpy"),
            *(r["start"], r["end"], r["correlation_id"], r["device_id"], r["stream_id"]),
            {"graph_node": r["graph_node_id"]},
        )
        for r in recording["records"]
        if r["kind"] in (1, 10)
    ]
    return Records(calls, works)


def _of(record: Any) -> tuple[int, int]:
    return record["correlation_id"], record["thread_id"]


def test_every_kernel_and_copy_finds_its_call(recording: Any, clock: ClockMap) -> None:
    collected = spans_of(records_of(recording), clock, {})
    assert (collected.dropped, collected.notes) == (0, ())
    works = [s for s in collected.spans if s.kind in (SpanKind.KERNEL, SpanKind.COPY)]
    assert len(works) == 54
    first, last = (each[0] for each in recording["pairs"])
    assert all(first <= s.start_ns and s.start_ns + s.duration_ns <= last for s in works)


def test_kernels_of_a_graph_are_told_apart_by_their_node(recording: Any, clock: ClockMap) -> None:
    spans = spans_of(records_of(recording), clock, {}).spans
    kernels = [s for s in spans if s.kind == SpanKind.KERNEL]
    launch = kernels[0].correlation
    nodes = [(s.attributes or {})["graph_node"] for s in kernels if s.correlation == launch]
    assert len(nodes) > 1
    assert len(set(nodes)) == len(nodes)


def test_threads_are_the_systems(recording: Any, clock: ClockMap) -> None:
    threads = {recording["ident"] & 0xFFFFFFFF: recording["native"]}
    spans = spans_of(records_of(recording), clock, threads).spans
    numbers = {s.thread for s in spans if s.kind == SpanKind.LAUNCH}
    assert recording["native"] in numbers
    # XLA launches from threads of its own, that Python does not know
    assert len(numbers) > 1
    assert all(0 < number < 2**31 for number in numbers)


def small(*calls: Call, dropped: int = 0, correlation: int = 7) -> Records:
    work = DeviceWork(SpanKind.KERNEL, "_Z4spinx", 120, 150, correlation, 0, 14)
    return Records(calls, [work], dropped)


PLAIN = ClockMap(Pair(0, 100), Pair(1000, 1100))


def test_of_a_runtime_call_and_the_driver_call_in_it_the_runtimes_counts() -> None:
    outer = Call(
        "cudaLaunchKernel", is_driver=False, start_ns=110, end_ns=130, correlation=7, thread=1
    )
    inner = Call(
        "cuLaunchKernel", is_driver=True, start_ns=112, end_ns=128, correlation=7, thread=1
    )
    spans = spans_of(small(outer, inner), PLAIN, {}).spans
    assert [s.name for s in spans] == ["cudaLaunchKernel", "spin(long long)"]
    assert [s.start_ns for s in spans] == [10, 20]


def test_lost_records_are_counted_whoever_counts_them() -> None:
    launch = Call(
        "cuLaunchKernel", is_driver=True, start_ns=110, end_ns=130, correlation=8, thread=1
    )
    collected = spans_of(small(launch), PLAIN, {})
    assert collected.dropped == 1
    assert collected.notes == (
        "1 launched kernel left no record",
        "1 kernel or copy has no API call",
    )
    assert spans_of(small(launch, dropped=5), PLAIN, {}).dropped == 5


def test_names_of_calls_and_copies() -> None:
    assert api_name("cudaLaunchKernel_v7000") == "cudaLaunchKernel"
    assert api_name("cudaLaunchKernel_ptsz_v7000") == "cudaLaunchKernel"
    assert api_name("cuGraphLaunch") == "cuGraphLaunch"
    assert [copy_kind_of(kind) for kind in (1, 2, 8, 99)] == ["HtoD", "DtoH", "DtoD", "Unknown"]


def _graphs() -> Graphs:
    return Graphs([Graphable("reduce.1", "pool"), Graphable("gemm.4", "dense")])


def test_a_graphs_kernels_carry_the_layers_that_its_predictor_tells() -> None:
    names = ("gemm_4", "reduce_1", "gemm_4")
    works = [
        DeviceWork(
            SpanKind.KERNEL, name, 100 - 10 * n, 200, 7, 0, 14, {"graph_node": n + 1} if n else {}
        )
        for n, name in enumerate(names)
    ]
    found = with_graph_layers(works, _graphs())
    # In the order of their starts the reduction comes last: only one of the two matches.
    assert [work.attributes.get("layer") for work in found] == [None, None, "dense"]
    rising = [replace(work, start_ns=200 - work.start_ns) for work in works]
    assert [work.attributes.get("layer") for work in with_graph_layers(rising, _graphs())] == [
        None,
        "pool",
        "dense",
    ]
    assert with_graph_layers(works, Graphs()) == works


class FakeCupti:
    """What the collector uses of cupti-python; records come when buffers are flushed."""

    ActivityKind = SimpleNamespace(CONCURRENT_KERNEL=10, MEMCPY=1, MEMSET=2, RUNTIME=5, DRIVER=4)

    def __init__(self) -> None:
        self.registered = 0
        self.dropped = 3
        self.on: set[int] = set()
        self.records: list[Any] = []
        self.activity_enable = self.on.add
        self.activity_disable = self.on.discard

    def activity_register_callbacks(self, _: Any, completed: Any) -> None:
        """Keep who hears of records last."""
        self.registered += 1
        self._completed = completed

    def activity_flush_all(self, _: int) -> None:
        """Hand the records over."""
        self._completed(self.records)

    def activity_get_num_dropped_records(self, _context: int, _stream: int, address: int) -> None:
        """Tell how many were lost since the last time asked."""
        ctypes.c_size_t.from_address(address).value, self.dropped = self.dropped, 0


def test_each_block_takes_the_records_back_and_counts_its_own_losses() -> None:
    cupti = FakeCupti()
    subscription = Subscription(cupti)
    subscription.enable()
    assert cupti.registered == 2
    assert cupti.on == {1, 2, 4, 5, 10}
    # Another client's kind of record, as XLA's profiler switches some on.
    cupti.records = [SimpleNamespace(kind=17)]
    assert subscription.take().dropped == 0
    assert cupti.on == set()
    subscription.enable()
    cupti.dropped = 2
    assert subscription.take().dropped == 2
