"""ONNX Runtime's own profile: lines of JSON to layers. Pure but for reading the file.

The profile is a JSON list with one event a line. `Node` events ending in `_kernel_time` come in
the order they ended, those of one run before the run's `model_run` event. `ts` (from the start
of profiling) and `dur` are whole microseconds, both cut: sums of layers are biased low.

Nodes of a body have events like all others, within that of the node that holds them: what a loop
repeats is part of its one layer; of an If, no layer itself, the nodes of the branch taken are.

Newer ones' events also tell by how much the bytes asked of its allocator grew while the
node ran (`mem_requested_in_use_delta`): what it allocated and kept, 0 where it works in place or
into a caller's array. Only a session's first run tells it: later ones plan all memory ahead.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from services.agent.predictors import Layer
from services.agent.predictors.natures import Nature
from services.agent.predictors.onnx_graph import Graph
from services.agent.predictors.onnx_origins import named_as_profiled, origins_of
from services.agent.predictors.onnxruntime_work import NodeWork, Ran, Work

_KERNEL = "_kernel_time"
_RUN = "model_run"
_LAYOUT_SUFFIX = "_nchwc"
_BRANCH = "If"
"""The operator whose body runs once at most."""

Event = dict[str, Any]


def readable_name(name: str) -> str:
    """Return a profile name without what ORT's optimiser appends (`_nchwc`, `_token_N`)."""
    name = name.removesuffix(_KERNEL)
    stem, token, number = name.rpartition("_token_")
    if token and number.isdigit():
        name = stem
    return name.removesuffix(_LAYOUT_SUFFIX)


def runs_of(lines: Iterable[str]) -> Iterator[list[Event]]:
    """Yield the node events of each run, in order of their start."""
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


def layers_among(nodes: Iterable[Event]) -> tuple[list[Event], set[str]]:
    """Return the node events that are layers, by their start, and the operators others lie in.

    A node that begins within another on its thread is in the body of that. Starts and durations
    are cut, so that one that comes after another never seems to begin within it.
    """
    layers: list[Event] = []
    holders: set[str] = set()
    last: dict[Any, tuple[int, str]] = {}
    for node in sorted(nodes, key=lambda each: (int(each["ts"]), -int(each["dur"]))):
        kind = str(node.get("args", {}).get("op_name", ""))
        begin, thread = int(node["ts"]), node.get("tid")
        if kind == _BRANCH:
            continue
        end, holder = last.get(thread, (begin, ""))
        if begin < end:
            holders.add(holder)
            continue
        last[thread] = begin + int(node["dur"]), kind
        layers.append(node)
    return layers, holders


def bodies_note(holders: Iterable[str]) -> str:
    """Return what a reader should know of layers with bodies, by their operators."""
    named = ", ".join(sorted(holders))
    return (
        f"a body is one layer with what repeats it, tracing included; its FLOP are unknown: {named}"
    )


class LayerNames:
    """Names and attributes of a model's executed nodes, worked out once for each."""

    def __init__(self, originals: Graph, executed: Graph) -> None:
        """Take the graph that was given and the one that the optimiser made of it."""
        #: about how many events a run's profile has
        self.events = len(executed.nodes) + 2
        held = [node for node in (*executed.nodes, *executed.inner) if node.has_body]
        #: whether `events` is not only that of the nodes outside of bodies
        self.is_counted = not held
        #: the operators that repeat a body
        self.holders = {node.op_type for node in held} - {_BRANCH}
        nodes = named_as_profiled(originals.nodes, executed.nodes)
        self._origins = origins_of(originals.nodes, nodes)
        self._work = NodeWork(originals, replace(executed, nodes=nodes), self._origins)
        #: what a node's spans carry, by its name and number; in order of their first run
        self._texts: dict[tuple[str, int], bytes] = {}
        #: bytes that nodes allocated in a session's first run, by the same
        self._allocated: dict[tuple[str, int], int] = {}

    def count(self, lines: Iterable[str], runs: int) -> None:
        """Learn how many events a run has from the lines of a profile with some runs only."""
        self.events = max(self.events, -(-sum(1 for _ in lines) // max(runs, 1)))
        self.is_counted = True

    def measure(self, events: Iterable[Event]) -> None:
        """Learn what nodes allocate from a session's first run, one node after the other."""
        for event in events:
            args = event.get("args", {})
            grown = _whole(args, "mem_requested_in_use_delta")
            if grown is not None:
                self._allocated.setdefault(_key(event["name"], args), max(grown, 0))

    def layer(self, event: Event, started_ns: int) -> Layer:
        """Return a node event as a layer; `started_ns` is when profiling began (monotonic)."""
        args = event.get("args", {})
        return Layer(
            name=readable_name(event["name"]),
            start_ns=started_ns + int(event["ts"]) * 1000,
            duration_ns=int(event["dur"]) * 1000,
            thread=int(event.get("tid", 0)),
            attributes=self._attributes(_key(event["name"], args), args),
        )

    def _attributes(self, key: tuple[str, int], args: Mapping[str, Any]) -> bytes:
        if key not in self._texts:
            self._texts[key] = self._nature(key, args, len(self._texts)).text()
        return self._texts[key]

    def _nature(self, key: tuple[str, int], args: Mapping[str, Any], index: int) -> Nature:
        name = key[0]
        kind = str(args.get("op_name", ""))
        inputs, outputs = _shapes(args, "input_type_shape"), _shapes(args, "output_type_shape")
        written = _whole(args, "output_size")
        given = _whole(args, "activation_size"), _whole(args, "parameter_size")
        work = self._work.of(name, Ran(kind, inputs, outputs, *given, written))
        if kind in self.holders:
            # Nobody tells how often its body ran.
            work = Work(None, None, None)
        allocated = self._allocated.get(key)
        how = "measured" if allocated is not None else "" if written is None else "outputs"
        return Nature(
            index=index,
            type=kind,
            shapes=outputs,
            input_shapes=inputs,
            provider=str(args.get("provider", "")),
            original=[node.label for node in self._origins.get(name, ())],
            memory_bytes=written if allocated is None else allocated,
            memory_kind=how,
            flops=work.flops,
            bytes_read=work.bytes_read,
            bytes_written=None if kind in self.holders else written,
            more={} if work.channels is None else {"channels": work.channels},
        )


def _key(name: str, args: Mapping[str, Any]) -> tuple[str, int]:
    """Return a node's name in the graph and its number: what its events have in common."""
    return name.removesuffix(_KERNEL), _whole(args, "node_index") or 0


def _shapes(args: Mapping[str, Any], name: str) -> list[list[int]]:
    """Return shapes as `[{dtype: dims}, …]` tells them."""
    return [[int(size) for size in dims] for each in args.get(name) or () for dims in each.values()]


def _whole(args: Mapping[str, Any], name: str) -> int | None:
    """Return a number that the profile tells as a text; None where it does not."""
    try:
        return int(args[name])
    except (KeyError, ValueError):
        return None
