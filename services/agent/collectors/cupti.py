"""CUPTI through cupti-python: for processes without torch (JAX, TensorFlow, ONNX Runtime …).

Needs the package `cupti-python` (13.0.1 beside CUDA 13.0) and the driver. Records are copied as
CUPTI hands its buffers over, on a thread of its own, when a block ends. XLA's profiler, which
tells JAX's layers, takes CUPTI's records for itself whenever it starts: each block takes them back.
Kernels that a CUDA graph replayed are given the layers that the predictor knows of its graphs.
"""

import contextlib
import ctypes
import importlib.util
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import Any

from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import (
    Availability,
    Collected,
    CollectorRequest,
)
from services.agent.collectors.cupti_claim import CLAIM, Claim, check_outside, outside_holder
from services.agent.collectors.cupti_clock import ClockMap, Pair, paired
from services.agent.collectors.cupti_records import (
    Call,
    Records,
    Work,
    api_name,
    copy_name,
    spans_of,
)
from services.agent.collectors.cupti_threads import native_threads
from services.agent.collectors.errors import CollectorUnavailable
from services.agent.predictors.xla_graphs import GRAPHS, Graphs

OPTIONS: tuple[str, ...] = ()
_BUFFER_BYTES = 8 << 20
_FORCED = 1
"""CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: buffers that are not full too."""
_KINDS = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "DRIVER")
FRAMEWORKS = ("jax", "onnxruntime", "tensorflow", "tensorrt")
_VERIFIED = "verified with JAX on an H200; not with other frameworks"
_NO_DRIVER = "the CUDA driver (libcuda.so.1) is not found"


def availability() -> Availability:
    """Say whether CUPTI can be used here, from what is installed."""
    if importlib.util.find_spec("cupti") is None:
        return Availability((), "the package cupti-python is not installed")
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Availability((), _NO_DRIVER)
    if outside := outside_holder():
        return Availability((), f"{outside} watches this process and holds CUPTI")
    return Availability((Level.SYSTEM,), _VERIFIED, devices=("gpu",), frameworks=FRAMEWORKS)


def open_collector(request: CollectorRequest) -> "CuptiCollector":  # noqa: ARG001
    """Open CUPTI, and pay for its first start. Raises CollectorUnavailable."""
    check_outside("cupti")
    if "torch" in sys.modules:
        reason = "torch is loaded, and its Kineto takes CUPTI's records: use the collector kineto"
        raise CollectorUnavailable("cupti", reason)
    collector = CuptiCollector(_subscription())
    try:
        collector.begin()
        collector.end()
    except BaseException:
        collector.close()
        raise
    return collector


class CuptiCollector:
    """The activities of one block after another."""

    name = "cupti"
    level = Level.SYSTEM

    def __init__(self, subscription: "Subscription", claim: Claim = CLAIM) -> None:
        self._subscription, self._claim = subscription, claim
        self._began: Pair = Pair(0, 0)
        self._is_on = False

    def begin(self) -> None:
        """Switch the activities on. Raises CollectorUnavailable."""
        self._claim.take(self.name)
        try:
            self._subscription.enable()
        except BaseException:
            self._claim.release(self.name)
            raise
        self._is_on = True
        self._began = paired(self._subscription.clock_ns)

    def end(self) -> Collected:
        """Switch them off and return what they left."""
        if not self._is_on:
            return Collected()
        self._is_on = False
        try:
            self._subscription.wait()
            clock = ClockMap(self._began, paired(self._subscription.clock_ns))
            records = self._subscription.take()
        except BaseException:
            self._subscription.disable()
            raise
        finally:
            self._claim.release(self.name)
        works = graphed(records.works, GRAPHS)
        return spans_of(replace(records, works=works), clock, native_threads())

    def close(self) -> None:
        """Switch the activities off, if they are on."""
        self.end()


def graphed(works: Sequence[Work], graphs: Graphs) -> list[Work]:
    """Return device work with the layer of each kernel of a graph, where the predictor tells it."""
    found, launched = list(works), defaultdict[int, list[int]](list)
    if not graphs.instructions:
        return found
    for place, work in enumerate(works):
        if work.kind == SpanKind.KERNEL and work.attributes.get("graph_node"):
            launched[work.correlation].append(place)
    for places in launched.values():
        rising = sorted(places, key=lambda place: works[place].start_ns)
        layers = graphs.layers_of([works[place].name for place in rising])
        for place, layer in zip(rising, layers, strict=True):
            if layer is not None:
                told = {**works[place].attributes, "layer": layer}
                found[place] = replace(works[place], attributes=told)
    return found


class Subscription:
    """The process's callbacks with CUPTI."""

    def __init__(self, cupti: Any) -> None:
        self._cupti = cupti
        kinds = cupti.ActivityKind
        self._kinds = [getattr(kinds, name) for name in _KINDS]
        self._calls: list[tuple[bool, int, int, int, int, int]] = []
        self._works: list[Work] = []
        self._names: dict[tuple[bool, int], str] = {}
        self._of_kind = {
            int(kinds.CONCURRENT_KERNEL): self._kernel,
            int(kinds.MEMCPY): self._copy,
            int(kinds.MEMSET): self._set,
            int(kinds.RUNTIME): self._runtime_call,
            int(kinds.DRIVER): self._driver_call,
        }
        self._register()

    def _register(self) -> None:
        self._cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._completed)

    def clock_ns(self) -> int:
        """Return CUPTI's time stamp."""
        return int(self._cupti.get_timestamp())

    def enable(self) -> None:
        """Begin to record, with nothing left of before."""
        self._calls.clear()
        self._works.clear()
        self._register()
        try:
            for kind in self._kinds:
                self._cupti.activity_enable(kind)
        except BaseException:
            self.disable()
            raise
        # Asking begins the count anew: what another client lost before is not this block's.
        self._dropped()

    def wait(self) -> None:
        """Wait for the device: its records end with its work."""
        ctypes.CDLL("libcuda.so.1").cuCtxSynchronize()

    def take(self) -> Records:
        """End recording and return what there is."""
        self._cupti.activity_flush_all(_FORCED)
        self.disable()
        calls = [
            Call(self._name((driver, cbid)), driver, *rest) for driver, cbid, *rest in self._calls
        ]
        return Records(calls, list(self._works), self._dropped())

    def disable(self) -> None:
        """Switch every kind off: one left on costs until the process ends."""
        for kind in self._kinds:
            # Not all need be on, and the binding raises its own kinds.
            with contextlib.suppress(Exception):
                self._cupti.activity_disable(kind)

    def _completed(self, records: Sequence[Any]) -> None:
        for record in records:
            # Whoever else is CUPTI's client in the process may want kinds that are not used here.
            if (take := self._of_kind.get(int(record.kind))) is not None:
                take(record)

    def _runtime_call(self, record: Any) -> None:
        self._call(record, is_driver=False)

    def _driver_call(self, record: Any) -> None:
        self._call(record, is_driver=True)

    def _call(self, record: Any, *, is_driver: bool) -> None:
        stamps = (record.start, record.end, record.correlation_id, record.thread_id)
        self._calls.append((is_driver, record.cbid, *stamps))

    def _kernel(self, record: Any) -> None:
        shape = {
            "grid": [record.grid_x, record.grid_y, record.grid_z],
            "block": [record.block_x, record.block_y, record.block_z],
            "registers": record.registers_per_thread,
            "shared_bytes": record.static_shared_memory + record.dynamic_shared_memory,
        }
        self._work(SpanKind.KERNEL, record.name, record, shape)

    def _copy(self, record: Any) -> None:
        kind = copy_name(record.copy_kind)
        self._work(
            SpanKind.COPY, f"Memcpy {kind}", record, {"bytes": record.bytes, "copy_kind": kind}
        )

    def _set(self, record: Any) -> None:
        self._work(SpanKind.SET, "Memset", record, {"bytes": record.bytes})

    def _work(self, kind: SpanKind, name: str, record: Any, attributes: dict[str, Any]) -> None:
        if node := record.graph_node_id:
            attributes["graph_node"] = node
        stamps = (record.start, record.end, record.correlation_id)
        where = (record.device_id, record.stream_id)
        self._works.append(Work(kind, name, *stamps, *where, attributes))

    def _name(self, key: tuple[bool, int]) -> str:
        is_driver, cbid = key
        if key not in self._names:
            domains = self._cupti.CallbackDomain
            domain = domains.DRIVER_API if is_driver else domains.RUNTIME_API
            self._names[key] = api_name(self._cupti.get_callback_name(domain, cbid))
        return self._names[key]

    def _dropped(self) -> int:
        """Return how many records found no buffer since the last time asked."""
        count = ctypes.c_size_t(0)
        self._cupti.activity_get_num_dropped_records(0, 0, ctypes.addressof(count))
        return count.value


@lru_cache(maxsize=1)
def _subscription() -> Subscription:
    try:
        cupti = import_module("cupti.cupti")
    except ImportError as error:
        raise CollectorUnavailable("cupti", str(error)) from error
    try:
        return Subscription(cupti)
    except Exception as error:  # the binding raises its own kinds
        raise CollectorUnavailable("cupti", str(error)) from error
