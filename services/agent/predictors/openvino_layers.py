"""Layers of OpenVINO: its performance counts, read around a block on a twin compiled with them.

On a CPU a node's count is the mean of all calls since its model was compiled, the first and
warm-up ones too, in whole microseconds rounded down (`PerfCount::avg` of its `perf_count.h`; seen
so of 2026.4). So a block's own time is the difference of mean times calls behind and before it,
and the twin is compiled anew for each: what rounding loses grows with the calls since. How a
node's time varies between calls is not to be had: it is the same in every call that is as long as
its layers, and what does not fit into a shorter one is left to the others.

Counts have no begins: a call's layers are set one after the other in the order of execution from
the call's begin, which their attributes say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import prod
from threading import get_native_id
from typing import Any

from mlscope.tracing.clock import now_ns
from services.agent.errors import PredictFailed
from services.agent.predictors import Layer, Tensors
from services.agent.predictors.natures import (
    Nature,
    Shapes,
    plain_flops,
    product_flops,
    recurrent_flops,
    spared_bytes,
)

_SET = (
    "OpenVINO tells layers' times as means over calls and not when they began: a layer's is its "
    "block's mean, not what it took in each call, and they are set one after the other"
)
_PRODUCTS = ("Convolution", "GroupConvolution", "FullyConnected", "MatMul")
_RECURRENT = ("RNNSeq", "RNNCell")
"""LSTM, GRU and RNN, whose last inputs are W, R and biases."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What OpenVINO told after some calls of a compiled model."""

    calls: int
    #: by node, in whole microseconds rounded down; a node that never took one has 0
    mean_us: Mapping[str, int]

    def took_us(self, name: str, before: "Reading") -> int:
        """Return a node's time in all calls since a reading, known to `rounding_us` each."""
        behind_us = self.calls * self.mean_us.get(name, 0)
        return max(0, behind_us - before.calls * before.mean_us.get(name, 0))


UNREAD = Reading(0, {})
"""Before a compiled model's first call."""


def reading_of(calls: int, told: Sequence[Any]) -> Reading:
    """Return what `InferRequest.profiling_info` told after some calls."""
    return Reading(calls, {each.node_name: _microseconds(each.real_time) for each in told})


def rounding_us(before: Reading, behind: Reading) -> int:
    """Return by how many microseconds a layer's mean between two readings may be off.

    A mean of n calls loses less than one, so their sum n - 1 at most; each call loses one more.
    """
    return 1 - (1 - behind.calls) // max(1, behind.calls - before.calls)


@dataclass(slots=True)
class NodeNames:
    """The nodes that a compiled model may execute, in its order, and those that were seen to."""

    natures: Mapping[str, Nature]
    _rows: dict[str, bytes] = field(default_factory=dict)
    _is_settled: bool = False

    def settle(self) -> None:
        """Keep to the rows there are, if any: every block has the same layers.

        Which nodes of less than a microsecond once take one changes from block to block.
        """
        self._is_settled = bool(self._rows)

    def note(self, read: Reading) -> None:
        """Give a row to each node that took a microsecond and has none, until it is settled."""
        if self._is_settled:
            return
        seen = [name for name in self.natures if name in self._rows or read.mean_us.get(name, 0)]
        self._rows = {
            name: replace(self.natures[name], index=place).text() for place, name in enumerate(seen)
        }

    def layers_of(
        self, calls: Sequence[tuple[int, int]], before: Reading, behind: Reading, thread: int
    ) -> list[list[Layer]]:
        """Return the layers of each call (begin and end, monotonic ns) between two readings.

        Over all calls a layer's times sum to what it took; within a call they are no longer than
        it. A node below OpenVINO's microsecond is a layer of no time if it once took one.
        """
        took = {
            name: 1000 * behind.took_us(name, before) for name in self.natures if name in self._rows
        }
        took_ns = sum(took.values())
        level_ns = filled_to([ended - began for began, ended in calls], took_ns)
        layers: list[list[Layer]] = []
        for start, ended in calls:
            held_ns, call = min(ended - start, level_ns), list[Layer]()
            for name, layer_ns in took.items():
                duration = held_ns * layer_ns // max(1, took_ns)
                call.append(Layer(name, start, duration, thread, self._rows[name]))
                start += duration
            layers.append(call)
        return layers


def filled_to(calls_ns: Sequence[int], took_ns: int) -> int:
    """Return how much each call holds of a time spent in all of them, or its whole if shorter."""
    left_ns = took_ns
    for place, call_ns in enumerate(sorted(calls_ns)):
        level_ns = left_ns // (len(calls_ns) - place)
        if call_ns >= level_ns:
            return level_ns
        left_ns -= call_ns
    return max(calls_ns, default=0)


class CountedCapture:
    """One block of predict calls on a twin that counts, compiled for it."""

    def __init__(
        self,
        predict: Callable[[Tensors], tuple[Tensors, Any]],
        names: NodeNames,
        warmed_with: Sequence[Tensors],
    ) -> None:
        """Take a predict of no call yet that returns its request too. Raises PredictFailed."""
        self.notes: list[str] = [_SET]
        self._predict = predict
        self._names = names
        self._request: Any = None
        self._calls: list[tuple[int, int]] = []
        for inputs in warmed_with:
            _, self._request = predict(inputs)
        self._before = self._read(len(warmed_with))

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        began = now_ns()
        outputs, self._request = self._predict(inputs)
        self._calls.append((began, now_ns()))
        return outputs

    def close(self) -> list[list[Layer]]:
        """Return the layers of each call."""
        behind = self._read(self._before.calls + len(self._calls))
        self._names.settle()
        off_us = rounding_us(self._before, behind)
        self.notes.append(
            f"OpenVINO's layers are known to {off_us} us, as a block's mean: their intervals and "
            "quartiles are of means"
        )
        # Whoever keeps the capture keeps no compiled model.
        self._predict, self._request = _ended, None
        return self._names.layers_of(self._calls, self._before, behind, get_native_id())

    def _read(self, calls: int) -> Reading:
        read = reading_of(calls, self._request.profiling_info) if calls else UNREAD
        self._names.note(read)
        return read


def _ended(_: Tensors) -> tuple[Tensors, Any]:
    raise PredictFailed("its block has ended")


def windows_of(model: Any) -> dict[str, int]:
    """Return the elements under each pool's window by its name in a model, not yet compiled."""
    pools = (each for each in model.get_ops() if each.get_type_name() in ("MaxPool", "AvgPool"))
    return {each.get_friendly_name(): prod(each.get_attributes()["kernel"]) for each in pools}


def nodes_of(compiled: Any, batch_size: int, windows: Mapping[str, int]) -> NodeNames:
    """Return the nodes that a compiled model may execute; `windows` are its model's.

    Where its inputs are free in their first size only, so is what it is in the shapes told.
    """
    shapes = [_shape(port) for port in compiled.inputs]
    batch = batch_size if all(-1 not in shape[1:] for shape in shapes) else -1
    operations = compiled.get_runtime_model().get_ordered_ops()
    wanted = [each for each in operations if _told(each, "layerType") not in ("Input", "Const")]
    wanted.sort(key=lambda each: int(_told(each, "execOrder") or 0))
    return NodeNames({each.get_friendly_name(): _nature(each, batch, windows) for each in wanted})


def _nature(operation: Any, batch: int, windows: Mapping[str, int]) -> Nature:
    inputs = [_shape(port, batch) for port in operation.inputs()]
    outputs = [_shape(port, batch) for port in operation.outputs()]
    kind = _told(operation, "layerType")
    known = all(-1 not in shape for shape in (*inputs, *outputs))
    written = _bytes(operation.outputs(), outputs) if known else None
    originals = [name for name in _told(operation, "originalLayersNames").split(",") if name]
    window = next((windows[name] for name in originals if name in windows), 1)
    return Nature(
        index=0,
        type=kind,
        shapes=outputs,
        input_shapes=inputs,
        provider=_told(operation, "primitiveType"),
        original=originals,
        memory_bytes=written,
        memory_kind="outputs" if known else "",
        flops=_flops(kind, inputs, outputs, window) if known else None,
        bytes_read=_bytes_read(kind, operation, inputs, outputs) if known else None,
        bytes_written=written,
        more={"precision": _told(operation, "runtimePrecision"), "start": "by order"},
    )


def _flops(kind: str, inputs: Shapes, outputs: Shapes, window: int) -> int | None:
    if kind in _RECURRENT and len(inputs) > 3:
        return recurrent_flops(inputs[0], inputs[-3:-1])
    if kind not in _PRODUCTS or len(inputs) < 2:
        return plain_flops(kind, inputs, outputs, window)
    weights = inputs[1]
    if kind in ("Convolution", "GroupConvolution"):
        # Runtime graphs call grouped ones Convolution too: (groups, out / groups, in / groups, …).
        is_grouped = bool(outputs) and len(weights) == len(outputs[0]) + 1
        return product_flops(outputs, prod(weights[2 if is_grouped else 1 :]))
    return product_flops(outputs, inputs[0][-1] if inputs[0] else 0)


def _shape(port: Any, batch: int = -1) -> list[int]:
    sizes = [size.get_length() if size.is_static else -1 for size in port.get_partial_shape()]
    return [batch, *sizes[1:]] if sizes[:1] == [-1] else sizes


def _bytes_read(kind: str, operation: Any, inputs: Shapes, outputs: Shapes) -> int:
    """Return the bytes of an operation's inputs, of a table those of the rows it returns."""
    given = operation.inputs()
    sizes = [_bytes([port], [shape]) for port, shape in zip(given, inputs, strict=True)]
    written = _bytes(operation.outputs()[:1], outputs[:1])
    return sum(sizes) - spared_bytes(kind, sizes, written)


def _bytes(ports: Sequence[Any], shapes: Shapes) -> int:
    sizes = [int(port.get_element_type().size) for port in ports]
    return sum(size * prod(shape) for size, shape in zip(sizes, shapes, strict=True))


def _microseconds(time: timedelta) -> int:
    return time // timedelta(microseconds=1)


def _told(operation: Any, name: str) -> str:
    known = operation.get_rt_info()
    return str(known[name].astype(str)) if name in known else ""
