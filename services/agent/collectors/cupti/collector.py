"""CUPTI through cupti-python: for processes without torch (JAX, TensorFlow, ONNX Runtime …).

Needs the package `cupti-python` (13.0.1 for CUDA 13.0) and the driver. Records are copied when a
block ends, as CUPTI delivers its buffers on a thread of its own. XLA's profiler, which records
JAX's layers, takes over CUPTI's records whenever it starts; each block takes them back. Kernels
that a CUDA graph replayed get the layers that the predictor knows for its graphs.
"""

import contextlib
import ctypes
import importlib.util
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

from mlscope.tracing.copy_kinds import copy_kind_of
from schemas.batch import SpanKind
from schemas.level import Level
from services.agent.collectors import (
    Availability,
    Collected,
    CollectorRequest,
)
from services.agent.collectors.cupti.claim import CLAIM, Claim, check_outside, outside_holder
from services.agent.collectors.cupti.clock import ClockMap, Pair
from services.agent.collectors.cupti.pairing import paired
from services.agent.collectors.cupti.records import (
    Call,
    DeviceWork,
    Records,
    api_name,
    spans_of,
)
from services.agent.collectors.cupti.threads import native_threads
from services.agent.collectors.errors import CollectorUnavailable, calling_collector
from services.agent.predictors.xla.graphs import GRAPHS, Graphs

OPTIONS: tuple[str, ...] = ()
_BUFFER_BYTES = 8 << 20
_FORCED = 1
"""CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: also buffers that are not full."""
_KINDS = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "DRIVER")
FRAMEWORKS = ("jax", "onnxruntime", "tensorflow", "tensorrt")
_VERIFIED = "verified with JAX and ONNX Runtime on an H200; not with other frameworks"
_NO_DRIVER = "the CUDA driver (libcuda.so.1) is not found"


def availability() -> Availability:
    """Return level system where the package and the driver are installed and CUPTI is free."""
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
    """Open CUPTI, and start it once, which is slow. Raises CollectorUnavailable."""
    check_outside("cupti")
    if "torch" in sys.modules:
        reason = "torch is loaded, and its Kineto takes CUPTI's records: use the collector kineto"
        raise CollectorUnavailable("cupti", reason)
    collector = CuptiCollector(_subscription())
    with contextlib.ExitStack() as undo:
        undo.callback(collector.close)
        collector.begin()
        collector.end()
        undo.pop_all()
    return collector


class CuptiCollector:
    """CUPTI's activities, block by block."""

    name = "cupti"
    level = Level.SYSTEM

    def __init__(self, subscription: "Subscription", claim: Claim = CLAIM) -> None:
        self._subscription, self._claim = subscription, claim
        self._began: Pair = Pair(0, 0)
        self._is_on = False

    def begin(self) -> None:
        """Enable the activities. Raises CollectorUnavailable."""
        self._claim.take(self.name)
        with contextlib.ExitStack() as undo:
            undo.callback(self._claim.release, self.name)
            self._subscription.enable()
            undo.pop_all()
        self._is_on = True
        self._began = paired(self._subscription.clock_ns)

    def end(self) -> Collected:
        """Disable the activities and return their spans."""
        if not self._is_on:
            return Collected()
        self._is_on = False
        with contextlib.ExitStack() as release, contextlib.ExitStack() as undo:
            release.callback(self._claim.release, self.name)
            undo.callback(self._subscription.disable)
            self._subscription.wait()
            clock = ClockMap(self._began, paired(self._subscription.clock_ns))
            records = self._subscription.take()
            undo.pop_all()
        device_work = with_graph_layers(records.device_work, GRAPHS)
        return spans_of(replace(records, device_work=device_work), clock, native_threads())

    def close(self) -> None:
        """Disable the activities, if they are enabled."""
        self.end()


def with_graph_layers(device_work: Sequence[DeviceWork], graphs: Graphs) -> list[DeviceWork]:
    """Return device work with the layer of each graph's kernel, where the predictor knows it."""
    if not graphs.instructions:
        return list(device_work)
    places_by_launch = defaultdict[int, list[int]](list)
    for place, work in enumerate(device_work):
        if work.kind == SpanKind.KERNEL and work.attributes.get("graph_node"):
            places_by_launch[work.correlation].append(place)
    layer_of_place: dict[int, str | None] = {}
    for places in places_by_launch.values():
        places.sort(key=lambda place: device_work[place].start_ns)
        layers = graphs.layers_of([device_work[place].name for place in places])
        layer_of_place |= zip(places, layers, strict=True)
    return [
        work
        if layer_of_place.get(place) is None
        else replace(work, attributes={**work.attributes, "layer": layer_of_place[place]})
        for place, work in enumerate(device_work)
    ]


class Subscription:
    """The process's subscription to CUPTI's activities."""

    def __init__(self, cupti: Any) -> None:
        self._cupti = cupti
        kinds = cupti.ActivityKind
        self._kinds = [getattr(kinds, name) for name in _KINDS]
        self._calls: list[tuple[bool, int, int, int, int, int]] = []
        self._device_work: list[DeviceWork] = []
        self._function_names: dict[tuple[bool, int], str] = {}
        self._keep_by_kind: dict[int, Callable[[Any], None]] = {
            int(kinds.CONCURRENT_KERNEL): self._kernel,
            int(kinds.MEMCPY): self._copy,
            int(kinds.MEMSET): self._set,
            int(kinds.RUNTIME): partial(self._call, is_driver=False),
            int(kinds.DRIVER): partial(self._call, is_driver=True),
        }
        self._register()

    def _register(self) -> None:
        self._cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._completed)

    def clock_ns(self) -> int:
        """Return CUPTI's current timestamp."""
        return int(self._cupti.get_timestamp())

    def enable(self) -> None:
        """Begin to record, without earlier records."""
        self._calls.clear()
        self._device_work.clear()
        self._register()
        with contextlib.ExitStack() as undo:
            undo.callback(self.disable)
            for kind in self._kinds:
                self._cupti.activity_enable(kind)
            undo.pop_all()
        # Reading the count resets it: what another client lost before is not of this block.
        self._dropped()

    def wait(self) -> None:
        """Wait for the device, whose records are complete when its work is."""
        ctypes.CDLL("libcuda.so.1").cuCtxSynchronize()

    def take(self) -> Records:
        """End recording and return the records."""
        self._cupti.activity_flush_all(_FORCED)
        self.disable()
        calls = [
            Call(self._function_name(is_driver, callback), is_driver, *stamps)
            for is_driver, callback, *stamps in self._calls
        ]
        return Records(calls, list(self._device_work), self._dropped())

    def disable(self) -> None:
        """Disable every kind: one left enabled costs time until the process ends."""
        for kind in self._kinds:
            # Not all are enabled, and the binding raises exceptions of its own.
            with contextlib.suppress(Exception):
                self._cupti.activity_disable(kind)

    def _completed(self, records: Sequence[Any]) -> None:
        for record in records:
            # Another client of CUPTI in the process may have enabled kinds that are not used here.
            keep = self._keep_by_kind.get(int(record.kind))
            if keep is not None:
                keep(record)

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
        kind = copy_kind_of(record.copy_kind)
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
        self._device_work.append(DeviceWork(kind, name, *stamps, *where, attributes))

    def _function_name(self, is_driver: bool, callback: int) -> str:
        key = is_driver, callback
        if key not in self._function_names:
            domains = self._cupti.CallbackDomain
            domain = domains.DRIVER_API if is_driver else domains.RUNTIME_API
            self._function_names[key] = api_name(self._cupti.get_callback_name(domain, callback))
        return self._function_names[key]

    def _dropped(self) -> int:
        """Return how many records found no buffer since the last call."""
        count = ctypes.c_size_t(0)
        self._cupti.activity_get_num_dropped_records(0, 0, ctypes.addressof(count))
        return count.value


@lru_cache(maxsize=1)
def _subscription() -> Subscription:
    try:
        cupti = import_module("cupti.cupti")
    except ImportError as error:
        raise CollectorUnavailable("cupti", str(error)) from error
    with calling_collector("cupti"):
        return Subscription(cupti)
