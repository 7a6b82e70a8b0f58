"""Layers of TensorFlow: a trace of each call of a v1 session, opened beside the measured model.

The trace of a `tf.function` is empty in current TensorFlow, that of a session is not. So a frozen
or saved model gets a second session, and a Keras model is frozen into one. A row is a node that
computes; constants, variables' handles and the like are left out. The trace is TensorFlow's
software trace. A full trace has the same nodes, but it would start a device tracer, which is a
second client of CUPTI beside the collector that traces kernels.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import tensorflow as tf

from mlscope.tracing.clock import epoch_offset_ns, now_ns
from mlscope.tracing.layer_attributes import LayerAttributes
from services.agent.predictors import Layer, Tensors
from services.agent.predictors.tensorflow.work import (
    Details,
    bytes_read,
    details_of,
    flops_of,
    readable_name,
)

_PLUMBING = frozenset({
    "NoOp", "Const", "VarHandleOp", "Placeholder", "_Arg", "_Retval", "Identity", "IdentityN",
    "ReadVariableOp", "_Send", "_Recv", "_HostSend", "_HostRecv", "StatefulPartitionedCall",
    "PartitionedCall", "_SOURCE", "_SINK", "Enter", "Merge", "Switch", "Exit", "NextIteration",
    "LoopCond", "ControlTrigger", "While", "StatelessWhile", "If", "StatelessIf", "Case",
    "TensorListReserve", "EmptyTensorList", "TensorListGetItem", "TensorListSetItem",
    "TensorListLength", "TensorListElementShape",
})  # fmt: skip
"""Operators that move values or control and compute nothing."""
_GPU_NOTE = (
    "nodes on a GPU are timed on the host, when they are launched: TensorFlow's own device tracer "
    "is left off; the collector cupti traces the kernels"
)
_PLUMBING_NOTE = (
    "constants, variables, control flow and function calls are not listed as layers, although they "
    "take time"
)

TracedCall = Callable[[Sequence[Any], Any, Any], Sequence[Any]]
"""Runs a session on arrays in order, with RunOptions and a RunMetadata to fill."""


@dataclass(frozen=True, slots=True)
class Twin:
    """A session that can be traced, the function that runs it, and details of its nodes."""

    session: Any
    call: TracedCall
    details: Details


@dataclass(frozen=True, slots=True)
class Tensor:
    """The shape of a tensor that a node returned, and the bytes of each of its elements."""

    shape: tuple[int, ...]
    item_bytes: int


@dataclass(slots=True)
class NodeNames:
    """Name and attributes of each node, taken from the first call in which it ran.

    `provider` is written into the attributes; `details`: what shapes do not say of a node.
    """

    provider: str
    details: Details = field(default_factory=dict)
    _rows: dict[tuple[str, int], tuple[str, bytes]] = field(default_factory=dict)

    def layers_of(self, stats: Iterable[Any], offset_ns: int, end_ns: int) -> list[Layer]:
        """Return the layers of one call, by start time.

        `stats`: its nodes' statistics; `offset_ns`: the epoch on CLOCK_MONOTONIC; `end_ns`: the
        end of the call on CLOCK_MONOTONIC.
        """
        nodes = sorted(stats, key=lambda node: node.all_start_nanos)
        outputs_by_node = {node.node_name: _outputs(node) for node in nodes}
        counts, layers = Counter[str](), []
        for node in nodes:
            kind, input_names = operator_and_inputs(node.timeline_label)
            if kind in _PLUMBING or node.node_name in ("_SOURCE", "_SINK"):
                continue
            key = (node.node_name, counts[node.node_name])
            counts[node.node_name] += 1
            if key not in self._rows:
                inputs = [t for name in input_names for t in outputs_by_node.get(name, ())[:1]]
                self._rows[key] = self._row(node, kind, inputs)
            name, attributes = self._rows[key]
            start = node.all_start_nanos + node.op_start_rel_nanos - offset_ns
            duration = min(node.op_end_rel_nanos - node.op_start_rel_nanos, end_ns - start)
            layers.append(Layer(name, start, max(0, duration), node.thread_id, attributes))
        return sorted(layers, key=lambda layer: layer.start_ns)

    def _row(self, node: Any, kind: str, inputs: Sequence[Tensor]) -> tuple[str, bytes]:
        """Return a node's layer name and its attributes as JSON."""
        name, outputs = readable_name(node.node_name), _outputs(node)
        shapes, input_shapes = [out.shape for out in outputs], [tensor.shape for tensor in inputs]
        attributes = LayerAttributes(
            index=len(self._rows),
            type=kind,
            shapes=shapes,
            input_shapes=input_shapes,
            provider=self.provider,
            original=(node.node_name,),
            memory_bytes=sum(int(allocator.total_bytes) for allocator in node.memory),
            memory_kind="measured",
            flops=flops_of(kind, input_shapes, shapes, self.details.get(name, 1)),
            bytes_read=bytes_read(
                kind, [_bytes([tensor]) for tensor in inputs], _bytes(outputs[:1])
            ),
            bytes_written=_bytes(outputs),
        )
        return name, attributes.text()


class TracedCapture:
    """One block of predict calls on a twin session, each traced."""

    def __init__(
        self,
        names: NodeNames,
        predict: Callable[[Tensors, Any, Any], Tensors],
        warmed_with: Sequence[Tensors],
    ) -> None:
        """Predict each batch of `warmed_with` once, uncounted.

        `names` describes the nodes; `predict` takes inputs, RunOptions and a RunMetadata that it
        fills. Raises PredictFailed.
        """
        self._names = names
        self._predict = predict
        self.notes: list[str] = [_PLUMBING_NOTE]
        if "GPU" in names.provider:
            self.notes.append(_GPU_NOTE)
        level = tf.compat.v1.RunOptions.SOFTWARE_TRACE
        self._options = tf.compat.v1.RunOptions(trace_level=level)
        self._calls: list[tuple[Any, int]] = []
        for inputs in warmed_with:
            predict(inputs, self._options, tf.compat.v1.RunMetadata())
        self._began_offset_ns = epoch_offset_ns()

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        metadata = tf.compat.v1.RunMetadata()
        outputs = self._predict(inputs, self._options, metadata)
        self._calls.append((metadata, now_ns()))
        return outputs

    def close(self) -> list[list[Layer]]:
        """Return the layers of each call."""
        offset_ns = epoch_offset_ns()
        moved_ns = abs(offset_ns - self._began_offset_ns)
        self.notes.append(
            f"TensorFlow's times are on mlscope's clock to within {moved_ns + 1000} ns"
        )
        layers_by_call = []
        for metadata, end_ns in self._calls:
            # The streams of a GPU repeat the nodes of the host.
            stats = [
                node
                for device in metadata.step_stats.dev_stats
                if "stream:" not in device.device
                for node in device.node_stats
            ]
            layers_by_call.append(self._names.layers_of(stats, offset_ns, end_ns))
        return layers_by_call


def session_of(graph: Any, feeds: Sequence[Any], fetches: Sequence[Any], settings: Any) -> Twin:
    """Return a new session of a `graph`.

    It takes the tensors `feeds` and returns the tensors `fetches`; `settings` is a ConfigProto.
    """
    session = tf.compat.v1.Session(graph=graph, config=settings)
    return Twin(session, _traced_call(session, feeds, fetches), details_of(graph))


def saved_session(folder: str, signature: str, loaded: Any, settings: Any) -> Twin:
    """Return a new session of one `signature` of the SavedModel in `folder`.

    `loaded` is that signature as a concrete function, whose variables have their values;
    `settings` is a ConfigProto.
    """
    graph = tf.Graph()
    with graph.as_default():
        session = tf.compat.v1.Session(graph=graph, config=settings)
        meta = tf.compat.v1.saved_model.load(session, [tf.saved_model.SERVING], folder)
    names = meta.signature_def[signature]
    inputs, outputs = loaded.structured_input_signature[1], loaded.structured_outputs
    feeds = [graph.get_tensor_by_name(names.inputs[name].name) for name in inputs]
    fetches = [graph.get_tensor_by_name(names.outputs[name].name) for name in outputs]
    _initialise_variables(session, fetches[0].op, loaded)
    return Twin(session, _traced_call(session, feeds, fetches), details_of(graph))


def _initialise_variables(session: Any, function_call: Any, loaded: Any) -> None:
    """Copy values from `loaded` into the variables of a call that were not restored.

    Keras 3 saves each variable twice in a SavedModel. The loader of sessions creates both and may
    restore the one that the call does not read. A call takes its function's captures in order.
    """
    variables = {id(variable.handle): variable for variable in loaded.variables}
    captured = [variables.get(id(outer)) for outer, _ in loaded.graph.captures]
    handles = [tensor for tensor in function_call.inputs if tensor.op.type != "Placeholder"]
    # A signature of TensorFlow 1 may end in any operator, whose inputs are not variables.
    if not function_call.type.endswith("PartitionedCall") or len(handles) != len(captured):
        return
    pairs = [
        (handle, variable)
        for handle, variable in zip(handles, captured, strict=True)
        if variable is not None
    ]
    with session.graph.as_default():
        checks = [tf.raw_ops.VarIsInitializedOp(resource=handle) for handle, _ in pairs]
    for (handle, variable), is_initialised in zip(pairs, session.run(checks), strict=True):
        if is_initialised:
            continue
        with session.graph.as_default():
            value = tf.compat.v1.placeholder(variable.dtype)
            assigned = tf.raw_ops.AssignVariableOp(resource=handle, value=value)
        session.run(assigned, {value: variable.numpy()})


def frozen_session(concrete: Any, settings: Any) -> Twin:
    """Return a session of a concrete function whose variables become constants."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(concrete)
    # A session cannot tell tensors of a function's own graph apart, but those of an imported one.
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(frozen.graph.as_graph_def(), name="")
    feeds = [graph.get_tensor_by_name(tensor.name) for tensor in frozen.inputs]
    fetches = [graph.get_tensor_by_name(tensor.name) for tensor in frozen.outputs]
    return session_of(graph, feeds, fetches, settings)


def _traced_call(session: Any, feeds: Sequence[Any], fetches: Sequence[Any]) -> TracedCall:
    run = session.make_callable(list(fetches), list(feeds), accept_options=True)

    def call(arrays: Sequence[Any], options: Any, metadata: Any) -> Sequence[Any]:
        outputs: Sequence[Any] = run(*arrays, options=options, run_metadata=metadata)
        return outputs

    return call


def operator_and_inputs(label: str) -> tuple[str, list[str]]:
    """Return the operator and the names of the inputs in a label `name = Op(a, b:1, ^c)`."""
    _, _, call = label.partition(" = ")
    kind, _, arguments = call.partition("(")
    names = [name.strip().partition(":")[0] for name in arguments.rpartition(")")[0].split(",")]
    return kind.strip(), [name for name in names if name and not name.startswith("^")]


def _outputs(node: Any) -> list[Tensor]:
    tensors = []
    for output in node.output:
        description = output.tensor_description
        try:
            item_bytes = tf.dtypes.as_dtype(description.dtype).size
        except TypeError:
            item_bytes = 0
        sizes = tuple(int(dim.size) for dim in description.shape.dim)
        tensors.append(Tensor(sizes, item_bytes))
    return tensors


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(prod(tensor.shape) * tensor.item_bytes for tensor in tensors)
