"""Events of an ONNX Runtime profile: which are layers, which lie in the body of one. Pure."""

from collections.abc import Iterable
from typing import Any

BRANCH = "If"
"""The operator whose body runs at most once."""

Event = dict[str, Any]


def layers_among(nodes: Iterable[Event]) -> tuple[list[Event], set[str]]:
    """Return the node events that are layers, by start, and the operators that have bodies.

    A node that begins within another on its thread is in the other's body. Starts and durations
    are truncated, so a node that follows another never seems to begin within it.
    """
    layers: list[Event] = []
    holders: set[str] = set()
    previous: dict[Any, tuple[int, str]] = {}
    for node in sorted(nodes, key=lambda event: (int(event["ts"]), -int(event["dur"]))):
        kind = str(node.get("args", {}).get("op_name", ""))
        begin, thread = int(node["ts"]), node.get("tid")
        if kind == BRANCH:
            continue
        end, holder = previous.get(thread, (begin, ""))
        if begin < end:
            holders.add(holder)
            continue
        previous[thread] = begin + int(node["dur"]), kind
        layers.append(node)
    return layers, holders


def bodies_note(holders: Iterable[str]) -> str:
    """Return the caveat about layers with bodies, by their operators."""
    operators = ", ".join(sorted(holders))
    return (
        "an operator with a body is one layer, including the tracing of its repetitions; "
        f"its FLOP are unknown: {operators}"
    )
