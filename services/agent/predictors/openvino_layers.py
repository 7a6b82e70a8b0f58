"""Layers of OpenVINO: its performance counts, read after each call of a twin compiled with them.

Counts are durations without begins: a call's layers are set one after the other in the order of
execution from the call's begin, which their attributes say. They are whole microseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import prod
from threading import get_native_id
from typing import Any

from mlscope.tracing.clock import now_ns
from services.agent.predictors import Layer, Tensors
from services.agent.predictors.natures import Nature, Shapes, plain_flops, product_flops

_SET = (
    "OpenVINO tells layers' durations in whole microseconds and not when they began: they are set "
    "one after the other"
)
_PRODUCTS = ("Convolution", "GroupConvolution", "FullyConnected", "MatMul")


Timed = tuple[int, int, Sequence[Any]]
"""A call: its begin and end (monotonic ns), and what OpenVINO told of its nodes."""


@dataclass(slots=True)
class NodeNames:
    """The nodes that a compiled model may execute, in its order, and those that were seen to."""

    natures: Mapping[str, Nature]
    _rows: dict[str, bytes] = field(default_factory=dict)

    def note(self, told: Sequence[Any]) -> None:
        """Give a row to each node that ran and has none."""
        ran = {each.node_name for each in told if str(each.status).endswith(".EXECUTED")}
        for name, nature in self.natures.items():
            if name in ran and name not in self._rows:
                self._rows[name] = replace(nature, index=len(self._rows)).text()

    def layers_of(self, call: Timed, thread: int) -> list[Layer]:
        """Return a call's nodes in order, one after the other within it.

        A node that took less than OpenVINO's microsecond is told as not run: it is a layer all
        the same when it ran in another call.
        """
        start, ended, told = call
        took = {each.node_name: _nanoseconds(each.real_time) for each in told}
        layers = []
        for name in self.natures:
            if name in self._rows and name in took:
                duration = min(took[name], ended - start)
                layers.append(Layer(name, start, duration, thread, self._rows[name]))
                start += duration
        return layers


class CountedCapture:
    """One block of predict calls on a twin that counts."""

    notes: Sequence[str] = (_SET,)

    def __init__(
        self,
        predict: Callable[[Tensors], tuple[Tensors, Any]],
        names: NodeNames,
        warmed_with: Sequence[Tensors],
    ) -> None:
        """Take a predict that returns its request too. Raises PredictFailed."""
        self._predict = predict
        self._names = names
        self._calls: list[Timed] = []
        for inputs in warmed_with:
            predict(inputs)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        began = now_ns()
        outputs, request = self._predict(inputs)
        # Read at once: the next call of the same request overwrites it.
        self._calls.append((began, now_ns(), request.profiling_info))
        return outputs

    def close(self) -> list[list[Layer]]:
        """Return the layers of each call."""
        for _, _, told in self._calls:
            self._names.note(told)
        thread = get_native_id()
        return [self._names.layers_of(call, thread) for call in self._calls]


def nodes_of(compiled: Any, batch_size: int) -> NodeNames:
    """Return the nodes that a compiled model may execute.

    Where its inputs are free in their first size only, so is what it is in the shapes told.
    """
    shapes = [_shape(port) for port in compiled.inputs]
    batch = batch_size if all(-1 not in shape[1:] for shape in shapes) else -1
    operations = compiled.get_runtime_model().get_ordered_ops()
    wanted = [each for each in operations if _told(each, "layerType") not in ("Input", "Const")]
    wanted.sort(key=lambda each: int(_told(each, "execOrder") or 0))
    return NodeNames({each.get_friendly_name(): _nature(each, batch) for each in wanted})


def _nature(operation: Any, batch: int) -> Nature:
    inputs = [_shape(port, batch) for port in operation.inputs()]
    outputs = [_shape(port, batch) for port in operation.outputs()]
    kind = _told(operation, "layerType")
    known = all(-1 not in shape for shape in (*inputs, *outputs))
    written = _bytes(operation.outputs(), outputs) if known else None
    originals = [name for name in _told(operation, "originalLayersNames").split(",") if name]
    return Nature(
        index=0,
        type=kind,
        shapes=outputs,
        input_shapes=inputs,
        provider=_told(operation, "primitiveType"),
        original=originals,
        memory_bytes=written,
        memory_kind="outputs" if known else "",
        flops=_flops(kind, inputs, outputs) if known else None,
        bytes_read=_bytes(operation.inputs(), inputs) if known else None,
        bytes_written=written,
        more={"precision": _told(operation, "runtimePrecision"), "start": "by order"},
    )


def _flops(kind: str, inputs: Shapes, outputs: Shapes) -> int | None:
    if kind not in _PRODUCTS or len(inputs) < 2:
        return plain_flops(kind, inputs, outputs)
    weights = inputs[1]
    if kind in ("Convolution", "GroupConvolution"):
        # Runtime graphs call grouped ones Convolution too: (groups, out / groups, in / groups, …).
        is_grouped = bool(outputs) and len(weights) == len(outputs[0]) + 1
        return product_flops(outputs, prod(weights[2 if is_grouped else 1 :]))
    return product_flops(outputs, inputs[0][-1] if inputs[0] else 0)


def _shape(port: Any, batch: int = -1) -> list[int]:
    sizes = [size.get_length() if size.is_static else -1 for size in port.get_partial_shape()]
    return [batch, *sizes[1:]] if sizes[:1] == [-1] else sizes


def _bytes(ports: Sequence[Any], shapes: Shapes) -> int:
    sizes = [int(port.get_element_type().size) for port in ports]
    return sum(size * prod(shape) for size, shape in zip(sizes, shapes, strict=True))


def _nanoseconds(time: timedelta) -> int:
    return (time.days * 86_400 + time.seconds) * 1_000_000_000 + time.microseconds * 1_000


def _told(operation: Any, name: str) -> str:
    known = operation.get_rt_info()
    return str(known[name].astype(str)) if name in known else ""
