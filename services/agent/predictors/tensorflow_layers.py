"""Layers of TensorFlow: a trace of each call of a v1 session beside the measured model.

The tracing of `tf.function` is broken (it returns nothing), that of a session is not: a frozen or
saved model gets a session of its own, a Keras model is frozen into one. A row is a node that
computes; constants, variables' handles and the like are left out. It is TensorFlow's software
trace, which has the same nodes as a full one: that would start a device tracer, a second client of
CUPTI beside the collector that tells the kernels.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import tensorflow as tf

from mlscope.tracing.clock import epoch_offset_ns, now_ns
from services.agent.predictors import Layer, Tensors
from services.agent.predictors.natures import Nature
from services.agent.predictors.tensorflow_work import (
    Details,
    bytes_read,
    details_of,
    flops_of,
    readable_name,
)

_PLUMBING = frozenset({
    *("NoOp", "Const", "VarHandleOp", "Placeholder", "_Arg", "_Retval", "Identity", "IdentityN"),
    *("ReadVariableOp", "_Send", "_Recv", "_HostSend", "_HostRecv", "StatefulPartitionedCall"),
    *("PartitionedCall", "_SOURCE", "_SINK", "Enter", "Merge", "Switch", "Exit", "NextIteration"),
    *("LoopCond", "ControlTrigger", "While", "StatelessWhile", "If", "StatelessIf", "Case"),
    *("TensorListReserve", "EmptyTensorList", "TensorListGetItem", "TensorListSetItem"),
    *("TensorListLength", "TensorListElementShape"),
})  # fmt: skip
_ON_HOST = (
    "nodes on a GPU are timed on the host, by launch: TensorFlow's own device tracer is left off, "
    "kernels are the collector cupti's"
)
_LEFT_OUT = (
    "constants, variables, control flow and calls of functions are no layers, though they take time"
)

TracedCall = Callable[[Sequence[Any], Any, Any], Sequence[Any]]
"""Runs a session on arrays with options and metadata to fill; outputs in their order."""


@dataclass(frozen=True, slots=True)
class Twin:
    """A session that can be traced, and how it is called."""

    session: Any
    call: TracedCall
    details: Details


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a node returned."""

    shape: tuple[int, ...]
    item_bytes: int


@dataclass(slots=True)
class NodeNames:
    """Rows of nodes by name and place among their like, as their first call told."""

    provider: str
    details: Details = field(default_factory=dict)
    _rows: dict[tuple[str, int], tuple[str, bytes]] = field(default_factory=dict)

    def layers_of(self, stats: Iterable[Any], offset_ns: int, end_ns: int) -> list[Layer]:
        """Return the layers of one call from its nodes' statistics, by their begin.

        `offset_ns` is the epoch's on our clock, `end_ns` the call's end on ours.
        """
        nodes = sorted(stats, key=lambda node: node.all_start_nanos)
        made = {node.node_name: _made(node) for node in nodes}
        counts, layers = Counter[str](), []
        for node in nodes:
            kind, inputs = _told(node.timeline_label)
            if kind in _PLUMBING or node.node_name in ("_SOURCE", "_SINK"):
                continue
            key = (node.node_name, counts[node.node_name])
            counts[node.node_name] += 1
            if key not in self._rows:
                given = [each for name in inputs for each in made.get(name, ())[:1]]
                self._rows[key] = self._row(node, kind, given)
            name, attributes = self._rows[key]
            start = node.all_start_nanos + node.op_start_rel_nanos - offset_ns
            duration = min(node.op_end_rel_nanos - node.op_start_rel_nanos, end_ns - start)
            layers.append(Layer(name, start, max(0, duration), node.thread_id, attributes))
        return sorted(layers, key=lambda layer: layer.start_ns)

    def _row(self, node: Any, kind: str, given: Sequence[Tensor]) -> tuple[str, bytes]:
        name, made = readable_name(node.node_name), _made(node)
        outputs, inputs = [each.shape for each in made], [each.shape for each in given]
        read = bytes_read(kind, [_bytes([each]) for each in given], _bytes(made[:1]))
        nature = Nature(
            index=len(self._rows),
            type=kind,
            shapes=outputs,
            input_shapes=inputs,
            provider=self.provider,
            original=(node.node_name,),
            memory_bytes=sum(int(each.total_bytes) for each in node.memory),
            memory_kind="measured",
            flops=flops_of(kind, inputs, outputs, self.details.get(name, 1)),
            bytes_read=read,
            bytes_written=_bytes(made),
        )
        return name, nature.text()


class TracedCapture:
    """One block of predict calls on a twin, each traced."""

    def __init__(
        self,
        names: NodeNames,
        predict: Callable[[Tensors, Any, Any], Tensors],
        warmed_with: Sequence[Tensors],
    ) -> None:
        """Take a predict that fills a call's metadata. Raises PredictFailed."""
        self._names = names
        self._predict = predict
        self.notes: list[str] = [_LEFT_OUT]
        if "GPU" in names.provider:
            self.notes.append(_ON_HOST)
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
            f"TensorFlow's times were put on our clock to within {moved_ns + 1000} ns"
        )
        return [
            self._names.layers_of(_nodes_in(metadata), offset_ns, end_ns)
            for metadata, end_ns in self._calls
        ]


def session_of(graph: Any, feeds: Sequence[Any], fetches: Sequence[Any], settings: Any) -> Twin:
    """Return a session of a graph beside any other."""
    session = tf.compat.v1.Session(graph=graph, config=settings)
    return Twin(session, _traced(session, feeds, fetches), details_of(graph))


def saved_session(folder: str, signature: str, loaded: Any, settings: Any) -> Twin:
    """Return a session of a SavedModel's signature, `loaded` as a concrete function before."""
    graph = tf.Graph()
    with graph.as_default():
        session = tf.compat.v1.Session(graph=graph, config=settings)
        meta = tf.compat.v1.saved_model.load(session, [tf.saved_model.SERVING], folder)
    known = meta.signature_def[signature]
    inputs, outputs = loaded.structured_input_signature[1], loaded.structured_outputs
    feeds = [graph.get_tensor_by_name(known.inputs[name].name) for name in inputs]
    fetches = [graph.get_tensor_by_name(known.outputs[name].name) for name in outputs]
    _fill(session, fetches[0].op, loaded)
    return Twin(session, _traced(session, feeds, fetches), details_of(graph))


def _fill(session: Any, called: Any, loaded: Any) -> None:
    """Give the variables of a call that were not restored the values that they have loaded.

    Keras 3 has each of its variables twice in a SavedModel; the loader of sessions makes both and
    restores the one that the call may not take. A call takes what its function captured in order.
    """
    variables = {id(each.handle): each for each in loaded.variables}
    captured = [variables.get(id(outer)) for outer, _ in loaded.graph.captures]
    taken = [each for each in called.inputs if each.op.type != "Placeholder"]
    # Signatures of TensorFlow 1 end in any operator, whose inputs are what others computed.
    if not called.type.endswith("PartitionedCall") or len(taken) != len(captured):
        return
    known = [(to, found) for to, found in zip(taken, captured, strict=True) if found is not None]
    with session.graph.as_default():
        checks = [tf.raw_ops.VarIsInitializedOp(resource=handle) for handle, _ in known]
    missing = [pair for pair, there in zip(known, session.run(checks), strict=True) if not there]
    for handle, variable in missing:
        with session.graph.as_default():
            value = tf.compat.v1.placeholder(variable.dtype)
            assigned = tf.raw_ops.AssignVariableOp(resource=handle, value=value)
        session.run(assigned, {value: variable.numpy()})


def frozen_session(concrete: Any, settings: Any) -> Twin:
    """Return a session of a concrete function, its variables made constants."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(concrete)
    # A function's own graph makes tensors that a session cannot tell apart: imported, they can.
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(frozen.graph.as_graph_def(), name="")
    feeds = [graph.get_tensor_by_name(each.name) for each in frozen.inputs]
    fetches = [graph.get_tensor_by_name(each.name) for each in frozen.outputs]
    return session_of(graph, feeds, fetches, settings)


def _traced(session: Any, feeds: Sequence[Any], fetches: Sequence[Any]) -> TracedCall:
    run = session.make_callable(list(fetches), list(feeds), accept_options=True)

    def call(arrays: Sequence[Any], options: Any, metadata: Any) -> Sequence[Any]:
        answers: Sequence[Any] = run(*arrays, options=options, run_metadata=metadata)
        return answers

    return call


def _nodes_in(metadata: Any) -> Iterator[Any]:
    """Yield the nodes' statistics; a GPU's streams repeat the host's nodes and are left out."""
    for device in metadata.step_stats.dev_stats:
        if "stream:" not in device.device:
            yield from device.node_stats


def _told(label: str) -> tuple[str, list[str]]:
    """Return operator and inputs' names of a label `name = Op(a, b:1, ^c)`."""
    _, _, call = label.partition(" = ")
    kind, _, rest = call.partition("(")
    names = [name.strip().partition(":")[0] for name in rest.rpartition(")")[0].split(",")]
    return kind.strip(), [name for name in names if name and not name.startswith("^")]


def _made(node: Any) -> list[Tensor]:
    return [_tensor(each.tensor_description) for each in node.output]


def _tensor(described: Any) -> Tensor:
    sizes = tuple(int(dim.size) for dim in described.shape.dim)
    try:
        item_bytes = tf.dtypes.as_dtype(described.dtype).size
    except TypeError:
        item_bytes = 0
    return Tensor(sizes, item_bytes)


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(prod(each.shape) * each.item_bytes for each in tensors)
