"""ONNX Runtime's profile (`enable_profiling`, JSON) as a recording: runs are queries, nodes layers.

Its clock ticks in microseconds and truncates starts and durations. On a GPU a node's time is that
of launching it.
"""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from mlscope.importing.errors import ForeignFileBroken
from mlscope.importing.onnxruntime.events import bodies_note, layers_among
from mlscope.importing.recording import Recording, merged, query_spans
from mlscope.tracing.texts import json_text, plain_text
from schemas.level import Level

MAX_BYTES = 1 << 30
MAX_EVENTS = 1_000_000
"""ONNX Runtime's own limit."""
_RUN, _KERNEL = "model_run", "_kernel_time"


def is_profile(head: bytes) -> bool:
    """Say whether a file that begins like this is ONNX Runtime's."""
    return b'"Session"' in head and (b"model_run" in head or b"session_initialization" in head)


def recording_of(path: Path) -> Recording:
    """Return a profile as a recording. Raises ForeignFileBroken."""
    events = _events(path)
    runs = [event for event in events if event.get("name") == _RUN]
    kernels = [event for event in events if str(event.get("name", "")).endswith(_KERNEL)]
    if not runs:
        raise ForeignFileBroken(str(path), "holds no model_run")
    try:
        nodes, holders = layers_among(kernels)
        spans = merged([query_spans(_times(runs), pl.lit(_RUN)), _layers(nodes)])
    except (KeyError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise ForeignFileBroken(str(path), f"has an event without times: {error}") from error
    notes = []
    if len(events) >= MAX_EVENTS:
        notes.append(
            f"the profile holds the maximum of {MAX_EVENTS} events: later runs are missing"
        )
    if holders:
        notes.append(bodies_note(holders))
    providers = " ".join(str(node["args"].get("provider", "")) for node in nodes)
    return Recording(
        tool="onnxruntime",
        spans=spans,
        framework="onnxruntime",
        device="cuda" if "CUDA" in providers or "Tensorrt" in providers else "cpu",
        notes=tuple(notes),
    )


def _events(path: Path) -> list[dict[str, Any]]:
    """Return the events of a file, each with a dictionary of `args`."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ForeignFileBroken(str(path), f"is larger than {MAX_BYTES} bytes")
        elements = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ForeignFileBroken(str(path), f"is cut short or not JSON: {error}") from error
    except OSError as error:
        raise ForeignFileBroken(str(path), error.strerror or str(error)) from error
    events = [element for element in elements if isinstance(element, dict)]
    return [
        event | ({} if isinstance(event.get("args"), dict) else {"args": {}}) for event in events
    ]


def _times(events: list[dict[str, Any]]) -> pl.DataFrame:
    """Return the times of events, from their own origin: start_ns, duration_ns, thread."""
    rows = [
        (int(event["ts"]) * 1000, int(event["dur"]) * 1000, int(event["tid"]) % (1 << 31))
        for event in events
    ]
    return pl.DataFrame(rows, ["start_ns", "duration_ns", "thread"], orient="row")


def _layers(nodes: list[dict[str, Any]]) -> pl.DataFrame:
    """Return nodes as layers; their index is their place in the order of their first run.

    (A node's own number counts within its graph: one in a body has the number of one outside.)
    """
    allocated = _allocated(nodes)
    indices: dict[tuple[str, str], int] = {}
    for node in nodes:
        indices.setdefault(_key(node), len(indices))
    texts = [
        json_text(
            {"index": indices[_key(node)]}
            | _static_attributes(node["args"])
            | allocated.get(_key(node), {})
        ).decode()
        for node in nodes
    ]
    names = [plain_text(str(node["name"])).removesuffix(_KERNEL) for node in nodes]
    return _times(nodes).with_columns(
        pl.Series("name", names, pl.String),
        pl.Series("attributes", texts, pl.String),
        pl.lit(int(Level.FRAMEWORK)).alias("level"),
    )


def _key(node: dict[str, Any]) -> tuple[str, str]:
    return str(node["name"]), str(node["args"].get("node_index", ""))


def _allocated(nodes: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the memory that nodes (by start) allocated in their first run; {} if any overlap.

    Later runs reuse the memory that the first one planned.
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
            allocated.setdefault(_key(node), memory)
    return allocated


def _static_attributes(args: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a node that are the same in each of its runs."""
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
    tensors = [tensor for tensor in value if isinstance(tensor, dict)]
    shapes = [shape for tensor in tensors for shape in tensor.values()]
    for shape in shapes:
        if not isinstance(shape, list):
            return None
        if not all(type(size) is int and size < 1 << 63 for size in shape):
            return None
    return shapes[0] if len(shapes) == 1 else shapes


def _integer(value: Any) -> int | None:
    """Return a number that 64 bits hold, which the profile has as a text; None for other values."""
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", str(value)) else None
