"""Layers of OpenVINO: its performance counts, read around a block on a twin compiled with them.

On a CPU the count of a node is the mean of all calls since its model was compiled, including the
first and the warm-up ones, in whole microseconds rounded down (`PerfCount::avg` in its
`perf_count.h`; true of 2026.4). So the time of a block is the difference of `mean * calls` after
and before it. The rounding error grows with the number of calls, so the twin is compiled anew for
each block. Counts do not show how a node's time varies between calls: each call of a block gets the
same time, and time that does not fit into a short call is given to the others.

Counts have no start times. The layers of a call are placed one after the other, in the order of
execution, from the start of the call; their attributes say so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import prod
from threading import get_native_id
from typing import Any

from mlscope.tracing.clock import now_ns
from mlscope.tracing.layer_attributes import (
    LayerAttributes,
    Shapes,
    plain_flops,
    product_flops,
    recurrent_flops,
    spared_bytes,
)
from services.agent.predictors import Layer, Tensors

_MEANS_NOTE = (
    "OpenVINO reports mean times of layers and no start times: a layer's time is the mean of its "
    "block, not that of each call, and layers are placed one after the other"
)
_NOT_LAYERS = ("Input", "Const")
_PRODUCTS = ("Convolution", "GroupConvolution", "FullyConnected", "MatMul")
_RECURRENT = ("RNNSeq", "RNNCell")
"""LSTM, GRU and RNN; their last inputs are W, R and biases."""


@dataclass(frozen=True, slots=True)
class Reading:
    """OpenVINO's performance counts after some calls of a compiled model."""

    calls: int
    #: by node, in whole microseconds rounded down, so 0 for a node that took less than one
    mean_us: Mapping[str, int]

    def spent_us(self, name: str, before: "Reading") -> int:
        """Return a node's time in all calls since the reading `before`.

        It may be off by `rounding_us` for each call.
        """
        after_us = self.calls * self.mean_us.get(name, 0)
        return max(0, after_us - before.calls * before.mean_us.get(name, 0))


UNREAD = Reading(0, {})
"""The reading before a compiled model's first call."""


def reading_of(calls: int, profiling_info: Sequence[Any]) -> Reading:
    """Return a reading from `InferRequest.profiling_info` after `calls` calls."""
    microsecond = timedelta(microseconds=1)
    return Reading(
        calls, {node.node_name: node.real_time // microsecond for node in profiling_info}
    )


def rounding_us(before: Reading, after: Reading) -> int:
    """Return by how many microseconds a layer's mean time between two readings may be off.

    Rounding takes less than 1 us from a mean of n calls, so at most n - 1 us from their sum, and
    up to 1 us more from each call.
    """
    return 1 - (1 - after.calls) // max(1, after.calls - before.calls)


@dataclass(slots=True)
class ExecutedNodes:
    """The nodes that a compiled model may execute, in its order, and the rows of those that did."""

    attributes: Mapping[str, LayerAttributes]
    _rows: dict[str, bytes] = field(default_factory=dict)
    _is_settled: bool = False

    def settle(self) -> None:
        """Add no more rows, if there are any, so that every block has the same layers.

        Otherwise nodes of about a microsecond would be listed in some blocks only.
        """
        self._is_settled = bool(self._rows)

    def note(self, read: Reading) -> None:
        """Add a row for each node that took a microsecond, until `settle` was called."""
        if self._is_settled:
            return
        executed = [
            name for name in self.attributes if name in self._rows or read.mean_us.get(name, 0)
        ]
        self._rows = {
            name: replace(self.attributes[name], index=index).text()
            for index, name in enumerate(executed)
        }

    def layers_of(
        self, calls: Sequence[tuple[int, int]], before: Reading, after: Reading, thread: int
    ) -> list[list[Layer]]:
        """Return the layers of each call between two readings.

        `calls`: begin and end of each, CLOCK_MONOTONIC ns; `before` and `after`: the readings;
        `thread`: the number of the calling thread. The times of a layer sum to its time in all
        calls, and the layers of a call are not longer than the call. A node of less than a
        microsecond is a layer of 0 ns if it once took one.
        """
        spent_ns = {
            name: 1000 * after.spent_us(name, before)
            for name in self.attributes
            if name in self._rows
        }
        total_ns = sum(spent_ns.values())
        share_ns = share_of_call([ended - began for began, ended in calls], total_ns)
        layers: list[list[Layer]] = []
        for start, ended in calls:
            filled_ns, call = min(ended - start, share_ns), list[Layer]()
            for name, layer_ns in spent_ns.items():
                duration = filled_ns * layer_ns // max(1, total_ns)
                call.append(Layer(name, start, duration, thread, self._rows[name]))
                start += duration
            layers.append(call)
        return layers


def share_of_call(calls_ns: Sequence[int], total_ns: int) -> int:
    """Return the equal share of `total_ns` that each call gets; a shorter call is filled up.

    `calls_ns`: the durations of the calls in ns.
    """
    remaining_ns = total_ns
    for number, call_ns in enumerate(sorted(calls_ns)):
        share_ns = remaining_ns // (len(calls_ns) - number)
        if call_ns >= share_ns:
            return share_ns
        remaining_ns -= call_ns
    return max(calls_ns, default=0)


class CountedCapture:
    """One block of predict calls on a twin with counters, compiled for it."""

    def __init__(
        self,
        predict: Callable[[Tensors], tuple[Tensors, Any]],
        names: ExecutedNodes,
        warmed_with: Sequence[Tensors],
    ) -> None:
        """Predict each batch of `warmed_with` once, uncounted.

        `predict` runs a newly compiled twin and returns outputs and infer request; `names`
        describes its nodes. Raises PredictFailed.
        """
        self.notes: list[str] = [_MEANS_NOTE]
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
        after = self._read(self._before.calls + len(self._calls))
        self._names.settle()
        off_us = rounding_us(self._before, after)
        self.notes.append(
            f"OpenVINO's layer times are means of a block, accurate to {off_us} us: their "
            "intervals and quartiles are those of means"
        )
        # A closed capture must not hold on to the compiled model.
        del self._predict
        self._request = None
        return self._names.layers_of(self._calls, self._before, after, get_native_id())

    def _read(self, calls: int) -> Reading:
        read = reading_of(calls, self._request.profiling_info) if calls else UNREAD
        self._names.note(read)
        return read


def windows_of(model: Any) -> dict[str, int]:
    """Return the elements in each pool's window, by the pool's name in an uncompiled model."""
    pools = (node for node in model.get_ops() if node.get_type_name() in ("MaxPool", "AvgPool"))
    return {pool.get_friendly_name(): prod(pool.get_attributes()["kernel"]) for pool in pools}


def nodes_of(compiled: Any, batch_size: int, windows: Mapping[str, int]) -> ExecutedNodes:
    """Return the nodes that a compiled model may execute.

    `batch_size` stands for the first size in shapes, where the inputs are free in that only;
    `windows`: see `windows_of`.
    """
    shapes = [_shape(port) for port in compiled.inputs]
    batch = batch_size if all(-1 not in shape[1:] for shape in shapes) else -1
    operations = compiled.get_runtime_model().get_ordered_ops()
    nodes = [node for node in operations if _runtime_text(node, "layerType") not in _NOT_LAYERS]
    nodes.sort(key=lambda node: int(_runtime_text(node, "execOrder") or 0))
    return ExecutedNodes(
        {node.get_friendly_name(): _layer_attributes(node, batch, windows) for node in nodes}
    )


def _layer_attributes(node: Any, batch: int, windows: Mapping[str, int]) -> LayerAttributes:
    inputs = [_shape(port, batch) for port in node.inputs()]
    outputs = [_shape(port, batch) for port in node.outputs()]
    kind = _runtime_text(node, "layerType")
    originals = [name for name in _runtime_text(node, "originalLayersNames").split(",") if name]
    described = LayerAttributes(
        index=0,
        type=kind,
        shapes=outputs,
        input_shapes=inputs,
        provider=_runtime_text(node, "primitiveType"),
        original=originals,
        extra={"precision": _runtime_text(node, "runtimePrecision"), "start": "by order"},
    )
    if any(-1 in shape for shape in (*inputs, *outputs)):
        return described
    input_bytes = [
        _bytes([port], [shape]) for port, shape in zip(node.inputs(), inputs, strict=True)
    ]
    # Of a table only the rows that are returned are read.
    first_bytes = _bytes(node.outputs()[:1], outputs[:1])
    written = _bytes(node.outputs(), outputs)
    window = next((windows[name] for name in originals if name in windows), 1)
    return replace(
        described,
        memory_bytes=written,
        memory_kind="outputs",
        flops=flops_of(kind, inputs, outputs, window),
        bytes_read=sum(input_bytes) - spared_bytes(kind, input_bytes, first_bytes),
        bytes_written=written,
    )


def flops_of(kind: str, inputs: Shapes, outputs: Shapes, window: int = 1) -> int | None:
    """Return a node's FLOPs; None when they are unknown.

    `kind`: its layer type; `inputs`, `outputs`: shapes in elements; `window`: elements under a
    pool's kernel. Weights of convolutions are (out, in / groups, kernel…), and of recurrent nodes
    W, R and biases are the last inputs.
    """
    if kind in _RECURRENT and len(inputs) > 3:
        return recurrent_flops(inputs[0], inputs[-3:-1])
    if kind not in _PRODUCTS or len(inputs) < 2:
        return plain_flops(kind, inputs, outputs, window)
    weights = inputs[1]
    if kind in ("Convolution", "GroupConvolution"):
        # Runtime graphs call a grouped one Convolution too; its weights are (groups,
        # out / groups, in / groups, …).
        first = 2 if outputs and len(weights) == len(outputs[0]) + 1 else 1
        return product_flops(outputs, prod(weights[first:]))
    return product_flops(outputs, next(reversed(inputs[0]), 0))


def _shape(port: Any, batch: int = -1) -> list[int]:
    sizes = [size.get_length() if size.is_static else -1 for size in port.get_partial_shape()]
    return [batch, *sizes[1:]] if sizes[:1] == [-1] else sizes


def _bytes(ports: Sequence[Any], shapes: Shapes) -> int:
    sizes = [int(port.get_element_type().size) for port in ports]
    return sum(size * prod(shape) for size, shape in zip(sizes, shapes, strict=True))


def _runtime_text(node: Any, name: str) -> str:
    """Return a node's runtime information as text; '' without it."""
    information = node.get_rt_info()
    return str(information[name].astype(str)) if name in information else ""
