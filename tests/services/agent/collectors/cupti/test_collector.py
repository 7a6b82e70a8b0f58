"""CUPTI's collector around blocks, with a library that stands in for cupti-python."""

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import CollectorRequest
from services.agent.collectors.cupti import collector as cupti
from services.agent.collectors.cupti.claim import Claim
from services.agent.collectors.cupti.collector import CuptiCollector, Subscription
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.predictors import Opened
from services.agent.worker.open_collectors import OpenCollectors

KERNEL, COPY, SET, DRIVER, RUNTIME = 10, 1, 2, 4, 5
KINDS = {KERNEL, COPY, SET, DRIVER, RUNTIME}
CALLBACKS = {211: "cudaLaunchKernel_v7000", 307: "cuLaunchKernel", 41: "cudaMemcpyAsync_v3020"}


class Broken(Exception):
    """What the binding raises."""


class Library:
    """As much of `cupti.cupti` as a subscription needs; `fails` is a kind or a function."""

    ActivityKind = SimpleNamespace(
        CONCURRENT_KERNEL=KERNEL, MEMCPY=COPY, MEMSET=SET, RUNTIME=RUNTIME, DRIVER=DRIVER
    )
    CallbackDomain = SimpleNamespace(DRIVER_API=1, RUNTIME_API=2)

    def __init__(self, fails: object = None) -> None:
        self.fails, self.is_on = fails, set[int]()
        self.pending: list[Any] = []
        self.dropped = 0

    def activity_register_callbacks(self, _: object, completed: Callable[..., None]) -> None:
        """Keep who takes records."""
        self._completed = completed

    def activity_enable(self, kind: int) -> None:
        """Switch a kind on."""
        self._fail(kind)
        self.is_on.add(kind)

    def activity_disable(self, kind: int) -> None:
        """Switch a kind off that is on."""
        self.is_on.remove(kind)

    def activity_flush_all(self, flag: int) -> None:
        """Hand over what there is, of kinds that are on."""
        assert flag == 1
        self._fail("flush")
        records: Sequence[Any] = [each for each in self.pending if each.kind in self.is_on]
        self.pending = []
        self._completed(records)

    def activity_get_num_dropped_records(self, _: int, __: int, address: int) -> None:
        """Write how many were dropped since the last time."""
        ctypes.c_size_t.from_address(address).value, self.dropped = self.dropped, 0

    def get_timestamp(self) -> int:
        """Return a clock of its own."""
        self._fail("clock")
        return time.time_ns()

    def get_callback_name(self, _: int, number: int) -> str:
        """Return a function's name."""
        return CALLBACKS[number]

    def _fail(self, what: object) -> None:
        if what == self.fails:
            raise Broken(f"CUPTI_ERROR of {what}")


class Waiting(Subscription):
    """A subscription of a process without a driver."""

    def wait(self) -> None:
        """Wait for no device."""


def opened(library: Library, claim: Claim | None = None) -> CuptiCollector:
    return CuptiCollector(Waiting(library), claim or Claim())


def call(kind: int, number: int, correlation: int, at_ns: int) -> SimpleNamespace:
    times = {"start": at_ns, "end": at_ns + 2000}
    return SimpleNamespace(kind=kind, cbid=number, correlation_id=correlation, thread_id=1, **times)


def work(kind: int, correlation: int, at_ns: int, **more: object) -> SimpleNamespace:
    places = {"device_id": 0, "stream_id": 7, "graph_node_id": 0, "start": at_ns}
    return SimpleNamespace(
        kind=kind, correlation_id=correlation, end=at_ns + 4000, **{**places, **more}
    )


def kernel(correlation: int, at_ns: int) -> SimpleNamespace:
    shape = dict.fromkeys(("grid_x", "grid_y", "grid_z", "block_y", "block_z"), 1)
    memory = {"static_shared_memory": 0, "dynamic_shared_memory": 16, "registers_per_thread": 8}
    return work(KERNEL, correlation, at_ns, name="relu", block_x=32, **shape, **memory)


def test_a_block_s_calls_and_work_are_spans_joined_by_correlation() -> None:
    library, claim = Library(), Claim()
    collector = opened(library, claim)
    collector.begin()
    assert (claim.holder, library.is_on) == ("cupti", KINDS)
    at = time.time_ns()
    library.pending = [
        call(RUNTIME, 211, 7, at),
        call(DRIVER, 307, 7, at + 100),
        kernel(7, at + 5000),
        call(RUNTIME, 41, 8, at + 6000),
        work(COPY, 8, at + 9000, bytes=64, copy_kind=2),
    ]
    collected = collector.end()
    assert [(each.name, each.kind, each.correlation) for each in collected.spans] == [
        ("cudaLaunchKernel", SpanKind.LAUNCH, 7),
        ("cudaMemcpyAsync", SpanKind.LAUNCH, 8),
        ("relu", SpanKind.KERNEL, 7),
        ("Memcpy DtoH", SpanKind.COPY, 8),
    ]
    assert [each.duration_ns for each in collected.spans] == [2000, 2000, 4000, 4000]
    assert (collected.dropped, tuple(collected.notes)) == (0, ())
    assert (claim.holder, library.is_on) == ("", set())


def test_each_block_has_what_is_its_own() -> None:
    library = Library()
    collector = opened(library)
    for correlation in (1, 2):
        library.dropped = 5
        collector.begin()
        library.dropped += correlation
        library.pending = [kernel(correlation, time.time_ns())]
        collected = collector.end()
        assert [each.correlation for each in collected.spans] == [correlation]
        assert collected.dropped == correlation
    assert collector.end().spans == ()


def test_a_launch_without_its_kernel_is_dropped() -> None:
    library = Library()
    collector = opened(library)
    collector.begin()
    library.pending = [call(RUNTIME, 211, 7, time.time_ns())]
    collected = collector.end()
    assert (collected.dropped, collected.notes) == (1, ("1 launched kernel left no record",))


def test_it_is_refused_while_another_has_cupti() -> None:
    library, claim = Library(), Claim()
    claim.take("kineto", {})
    collector = opened(library, claim)
    with pytest.raises(CollectorUnavailable, match="the collector kineto holds CUPTI"):
        collector.begin()
    collector.close()
    assert (claim.holder, library.is_on) == ("kineto", set())


@pytest.mark.parametrize("fails", [RUNTIME, "clock", "flush"])
def test_one_that_fails_leaves_nothing_on(fails: object) -> None:
    library, claim = Library(fails), Claim()
    collecting = OpenCollectors([opened(library, claim)])
    with collecting.block():
        pass
    assert collecting.notes == [f"collector cupti failed: CUPTI_ERROR of {fails}"]
    assert (claim.holder, library.is_on) == ("", set())


def test_it_leaves_a_process_with_torch_to_kineto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    gpu = Opened("jax", "1", (), (), "gpu", "", "float32", 1, {})
    with pytest.raises(CollectorUnavailable, match="torch is loaded"):
        cupti.open_collector(CollectorRequest(gpu, Level.SYSTEM))
