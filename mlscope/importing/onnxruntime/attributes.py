"""Attributes of ONNX Runtime's nodes as layers: type, shapes, provider, memory. Pure."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from mlscope.importing.onnxruntime.events import Event
from mlscope.tracing.texts import plain_text


def key_of(node: Event) -> tuple[str, str]:
    """Return what tells a node from the others of its graph: its name and its number."""
    return str(node["name"]), str(node["args"].get("node_index", ""))


def allocated_memory(nodes: Sequence[Event]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the memory (bytes) that nodes, by start, allocated in their first run, by `key_of`.

    It is unknown, {}, where nodes overlap. Later runs reuse the memory that the first one planned.
    """
    if any(
        int(node["ts"]) + int(node["dur"]) > int(following["ts"])
        for node, following in pairwise(nodes)
    ):
        return {}
    allocated: dict[tuple[str, str], dict[str, Any]] = {}
    for node in nodes:
        growth = _integer(node["args"].get("mem_requested_in_use_delta"))
        if growth is not None:
            memory = {"memory_bytes": max(growth, 0), "memory_kind": "measured"}
            allocated.setdefault(key_of(node), memory)
    return allocated


def static_attributes(args: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a node that are the same in each of its runs, from its `args`."""
    kind, provider = args.get("op_name"), args.get("provider")
    attributes: dict[str, Any] = {
        "type": plain_text(kind) if isinstance(kind, str) else None,
        "shape": _shapes(args.get("output_type_shape")),
        "input_shapes": _shapes(args.get("input_type_shape")),
        "provider": plain_text(provider) if isinstance(provider, str) else None,
    }
    size = _integer(args.get("output_size"))
    if size is not None and size >= 0:
        attributes["memory_bytes"], attributes["memory_kind"] = size, "outputs"
    return {name: value for name, value in attributes.items() if value is not None}


def _shapes(value: Any) -> list[Any] | None:
    """Return the shapes of `[{"float": [1, 8]}, …]`, or the only one; None for other values."""
    if not isinstance(value, list):
        return None
    tensors = (tensor for tensor in value if isinstance(tensor, dict))
    shapes = [shape for tensor in tensors for shape in tensor.values()]
    if not all(isinstance(shape, list) for shape in shapes):
        return None
    if not all(type(size) is int and size < 1 << 63 for shape in shapes for size in shape):
        return None
    return shapes[0] if len(shapes) == 1 else shapes


def _integer(value: Any) -> int | None:
    """Return a number that 64 bits hold, which the profile has as a text; None for other values."""
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", str(value)) else None
