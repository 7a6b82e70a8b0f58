"""ONNX Runtime's own profile: lines of JSON to layers. Pure but for reading the file.

The profile is a JSON list with one event a line. `Node` events ending in `_kernel_time` come in
the order they ended, those of one run before the run's `model_run` event. `ts` (from the start
of profiling) and `dur` are whole microseconds, both cut: sums of layers are biased low.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mlscope.tracing.texts import json_text
from services.agent.predictors import Layer
from services.agent.predictors.onnx_graph import Node, originals_of

_KERNEL = "_kernel_time"
_RUN = "model_run"
_LAYOUT_SUFFIX = "_nchwc"

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
            yield sorted(events, key=lambda each: int(each["ts"]))
            events = []


class LayerNames:
    """Names and attributes of a model's executed nodes, worked out once for each."""

    def __init__(self, originals: Sequence[Node], executed: Sequence[Node]) -> None:
        #: how many nodes a run executes
        self.nodes = len(executed)
        self._origin = originals_of(originals, _ends(originals, executed))
        self._texts: dict[tuple[str, str], bytes] = {}

    def layer(self, event: Event, started_ns: int) -> Layer:
        """Return a node event as a layer; `started_ns` is when profiling began (monotonic)."""
        args = event.get("args", {})
        return Layer(
            name=readable_name(event["name"]),
            start_ns=started_ns + int(event["ts"]) * 1000,
            duration_ns=int(event["dur"]) * 1000,
            thread=int(event.get("tid", 0)),
            attributes=self._attributes(event["name"].removesuffix(_KERNEL), args),
        )

    def _attributes(self, name: str, args: Mapping[str, Any]) -> bytes:
        shape = _shape(args.get("output_type_shape"))
        key = (name, str(shape))
        if key not in self._texts:
            text = {
                "type": args.get("op_name", ""),
                "index": int(args.get("node_index", -1)),
                "shape": shape,
                "provider": args.get("provider", ""),
                "original": self._origin.get(name, ()),
            }
            self._texts[key] = json_text(text)
        return self._texts[key]


def _ends(originals: Sequence[Node], executed: Sequence[Node]) -> dict[str, str]:
    """Return which original node ends each executed one: by its name, else by its output.

    A node of ORT's own (a reorder) ends nothing when another already stands for its output.
    """
    names = {node.name for node in originals}
    maker = {output: node.name for node in originals for output in node.outputs}
    ends = {node.name: readable_name(node.name) for node in executed}
    ends = {name: last for name, last in ends.items() if last in names}
    taken = set(ends.values())
    for node in executed:
        last = next((maker[output] for output in node.outputs if output in maker), "")
        if node.name not in ends and last and last not in taken:
            ends[node.name] = last
    return ends


def _shape(outputs: Any) -> list[int]:
    """Return the shape of the first output, as `[{dtype: dims}, …]` tells it."""
    for output in outputs or ():
        for dims in output.values():
            return [int(size) for size in dims]
    return []
