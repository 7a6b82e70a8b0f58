"""Turn ONNX Runtime's own profile, lines of JSON, into layers. Pure.

The profile is a JSON list with one event a line. `Node` events ending in `_kernel_time` come in
the order they ended; those of one run precede the run's `model_run` event. `ts` (from the start
of profiling) and `dur` are whole microseconds, rounded down, so sums of layers are biased low.

Nodes of a body have events like all others, within the event of the node that contains them. A
loop is one layer that includes what it repeats. An If is not a layer; the nodes of the branch that
ran are.

Newer versions also report by how many bytes the memory requested from the allocator grew while the
node ran (`mem_requested_in_use_delta`): what it allocated and kept, 0 where it works in place or
writes into a caller's array. This holds for a session's first run only: later runs plan all memory
ahead.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlscope.importing.onnxruntime.events import BRANCH, Event, layers_among
from mlscope.tracing.layer_attributes import LayerAttributes
from services.agent.predictors import Layer
from services.agent.predictors.onnxruntime.graph import Graph
from services.agent.predictors.onnxruntime.origins import named_as_profiled, origins_of
from services.agent.predictors.onnxruntime.work import NodeWork, ProfiledNode, Work

_KERNEL = "_kernel_time"
_RUN = "model_run"
_LAYOUT_SUFFIX = "_nchwc"
_MAX_LISTED = 5
"""Nodes that a note names at most."""


def readable_name(name: str) -> str:
    """Return a profile's node name without what ORT's optimiser appends (`_nchwc`, `_token_N`)."""
    name = name.removesuffix(_KERNEL)
    stem, token, number = name.rpartition("_token_")
    if token and number.isdigit():
        name = stem
    return name.removesuffix(_LAYOUT_SUFFIX)


def runs_of(lines: Iterable[str]) -> Iterator[list[Event]]:
    """Yield the node events of each run of a profile, in order of their start."""
    events: list[Event] = []
    for line in lines:
        text = line.strip().rstrip(",")
        if not text.startswith("{"):
            continue
        event = json.loads(text)
        name = str(event.get("name", ""))
        if event.get("cat") == "Node" and name.endswith(_KERNEL):
            events.append(event)
        elif name == _RUN:
            yield layers_among(events)[0]
            events = []


def fallback_note(events: Sequence[Event], provider: str) -> str:
    """Return a note of the nodes that ran elsewhere than on a session's own provider; '' for none.

    `events` are those of one run; `provider` is ORT's name of the session's own.
    """
    providers = {event["name"]: event.get("args", {}).get("provider", provider) for event in events}
    elsewhere = [readable_name(name) for name, own in providers.items() if own != provider]
    if not elsewhere:
        return ""
    others = ", ".join(sorted({own for own in providers.values() if own != provider}))
    listed = ", ".join(elsewhere[:_MAX_LISTED])
    suffix = f" and {len(elsewhere) - _MAX_LISTED} more" if elsewhere[_MAX_LISTED:] else ""
    count = f"{len(elsewhere)} of {len(providers)} nodes"
    return f"{count} ran on {others}, not on {provider}: {listed}{suffix}"


class LayerNames:
    """Names and attributes of a model's executed nodes, computed once for each."""

    def __init__(self, originals: Graph, executed: Graph) -> None:
        """Take the graph of the file, and the one that the optimiser made of it."""
        #: about how many events the profile of a run has
        self.events = len(executed.nodes) + 2
        with_body = [node for node in (*executed.nodes, *executed.inner) if node.has_body]
        #: whether `events` includes the nodes in bodies
        self.is_counted = not with_body
        #: the operators that repeat a body
        self.repeating = {node.op_type for node in with_body} - {BRANCH}
        nodes = named_as_profiled(originals.nodes, executed.nodes)
        self._origins = origins_of(originals.nodes, nodes)
        self._work = NodeWork(originals, replace(executed, nodes=nodes), self._origins)
        #: attributes as JSON by a node's name and number, in the order of their first run
        self._texts: dict[tuple[str, int], bytes] = {}
        #: bytes that nodes allocated in a session's first run, by name and number
        self._allocated: dict[tuple[str, int], int] = {}

    def count(self, lines: Iterable[str], runs: int) -> None:
        """Count the events of a run; `lines` are those of a profile of `runs` runs."""
        self.events = max(self.events, -(-sum(1 for _ in lines) // max(runs, 1)))
        self.is_counted = True

    def measure(self, events: Iterable[Event]) -> None:
        """Note what nodes allocate; `events` are those of a session's first, sequential run."""
        for event in events:
            args = event.get("args", {})
            grown_bytes = _number(args, "mem_requested_in_use_delta")
            if grown_bytes is not None:
                self._allocated.setdefault(_key(event["name"], args), max(grown_bytes, 0))

    def layer(self, event: Event, started_ns: int) -> Layer:
        """Return a node event as a layer.

        `started_ns`: when profiling began, CLOCK_MONOTONIC.
        """
        args = event.get("args", {})
        key = _key(event["name"], args)
        if key not in self._texts:
            self._texts[key] = self._layer_attributes(key, args, len(self._texts)).text()
        return Layer(
            name=readable_name(event["name"]),
            start_ns=started_ns + int(event["ts"]) * 1000,
            duration_ns=int(event["dur"]) * 1000,
            thread=int(event.get("tid", 0)),
            attributes=self._texts[key],
        )

    def _layer_attributes(
        self, key: tuple[str, int], args: Mapping[str, Any], index: int
    ) -> LayerAttributes:
        name = key[0]
        kind = str(args.get("op_name", ""))
        inputs, outputs = _shapes(args, "input_type_shape"), _shapes(args, "output_type_shape")
        written = _number(args, "output_size")
        read = _number(args, "activation_size"), _number(args, "parameter_size")
        work = self._work.of(name, ProfiledNode(kind, inputs, outputs, *read, written))
        if kind in self.repeating:
            # The profile does not say how often its body ran.
            work = Work(None, None, None)
        allocated = self._allocated.get(key)
        memory_kind = "measured" if allocated is not None else "" if written is None else "outputs"
        return LayerAttributes(
            index=index,
            type=kind,
            shapes=outputs,
            input_shapes=inputs,
            provider=str(args.get("provider", "")),
            original=[node.label for node in self._origins.get(name, ())],
            memory_bytes=written if allocated is None else allocated,
            memory_kind=memory_kind,
            flops=work.flops,
            bytes_read=work.bytes_read,
            bytes_written=None if kind in self.repeating else written,
            extra={} if work.channels is None else {"channels": work.channels},
        )


def _key(name: str, args: Mapping[str, Any]) -> tuple[str, int]:
    """Return a node's name in the graph and its number, which identify it in every run."""
    return name.removesuffix(_KERNEL), _number(args, "node_index") or 0


def _shapes(args: Mapping[str, Any], name: str) -> list[list[int]]:
    """Return the shapes in `[{dtype: dims}, …]`."""
    tensors = args.get(name) or ()
    return [[int(size) for size in dims] for tensor in tensors for dims in tensor.values()]


def _number(args: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number that the profile has as text; None where it has none."""
    try:
        return int(args[name])
    except (KeyError, ValueError):
        return None
