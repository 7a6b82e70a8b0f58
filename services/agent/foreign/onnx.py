"""ONNX Runtime's profile (`enable_profiling`, JSON) as a recording: runs are queries, nodes layers.

Its clock ticks in microseconds and cuts off starts and durations. On a GPU a node's time is that
of launching it.
"""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from mlscope.tracing.texts import json_text, plain_text
from schemas.level import Level
from services.agent.foreign.errors import ForeignFileBroken
from services.agent.foreign.recording import Recording, filled, rooted
from services.agent.predictors.onnxruntime_layers import bodies_note, layers_among

MOST_BYTES = 1 << 30
MOST_EVENTS = 1_000_000
_RUN, _KERNEL = "model_run", "_kernel_time"


def is_profile(head: bytes) -> bool:
    """Say whether a file that begins like this is ONNX Runtime's."""
    return b'"Session"' in head and (b"model_run" in head or b"session_initialization" in head)


def recording_of(path: Path) -> Recording:
    """Return a profile as a recording. Raises ForeignFileBroken."""
    events = _events(path)
    runs = [each for each in events if each.get("name") == _RUN]
    ran = [each for each in events if str(each.get("name", "")).endswith(_KERNEL)]
    if not runs:
        raise ForeignFileBroken(str(path), "holds no model_run")
    try:
        nodes, holders = layers_among(ran)
        told = filled(
            pl.concat(
                [
                    filled(rooted(_frame(runs), pl.lit(_RUN))),
                    filled(_layers(nodes)),
                ]
            )
            .drop("span")
            .sort("start_ns", "level", maintain_order=True)
        )
    except (KeyError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise ForeignFileBroken(str(path), f"has an event without times: {error}") from error
    full = len(events) >= MOST_EVENTS
    providers = {str(each["args"].get("provider", "")) for each in nodes}
    notes = [f"the profile holds {MOST_EVENTS} events, its most: later runs are missing"] * full
    notes += [bodies_note(holders)] * bool(holders)
    return Recording(
        tool="onnxruntime",
        spans=told,
        framework="onnxruntime",
        device="cuda" if any("CUDA" in each or "Tensorrt" in each for each in providers) else "cpu",
        notes=tuple(notes),
    )


def _events(path: Path) -> list[dict[str, Any]]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ForeignFileBroken(str(path), f"is larger than {MOST_BYTES} bytes")
        told = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ForeignFileBroken(str(path), f"is cut short or no JSON: {error}") from error
    except OSError as error:
        raise ForeignFileBroken(str(path), error.strerror or str(error)) from error
    return [each | {"args": _args(each)} for each in told if isinstance(each, dict)]


def _args(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _frame(events: list[dict[str, Any]]) -> pl.DataFrame:
    """Return the times of events, from their own start: start_ns, duration_ns, thread."""
    rows = [(int(e["ts"]) * 1000, int(e["dur"]) * 1000, int(e["tid"]) % (1 << 31)) for e in events]
    return pl.DataFrame(rows, ["start_ns", "duration_ns", "thread"], orient="row")


def _layers(nodes: list[dict[str, Any]]) -> pl.DataFrame:
    """Return nodes as layers; their index is their place in the order of their first run.

    (A node's own number is of its graph: one in a body has that of another outside.)
    """
    allocated = _allocated(nodes)
    places: dict[tuple[str, str], int] = {}
    for node in nodes:
        places.setdefault(_key(node), len(places))
    texts = [
        json_text(
            {"index": places[_key(node)]} | _nature(node["args"]) | allocated.get(_key(node), {})
        ).decode()
        for node in nodes
    ]
    return _frame(nodes).with_columns(
        pl.Series(
            "name", [plain_text(str(e["name"])).removesuffix(_KERNEL) for e in nodes], pl.String
        ),
        pl.Series("attributes", texts, pl.String),
        pl.lit(int(Level.FRAMEWORK)).alias("level"),
    )


def _key(node: dict[str, Any]) -> tuple[str, str]:
    return str(node["name"]), str(node["args"].get("node_index", ""))


def _allocated(nodes: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what nodes allocated in their first run, later ones plan it; {} if any overlap.

    They come by their start.
    """
    if any(int(a["ts"]) + int(a["dur"]) > int(b["ts"]) for a, b in pairwise(nodes)):
        return {}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for node in nodes:
        grown = _whole(node["args"].get("mem_requested_in_use_delta"))
        if grown is not None:
            told = {"memory_bytes": max(grown, 0), "memory_kind": "measured"}
            found.setdefault(_key(node), told)
    return found


def _nature(args: dict[str, Any]) -> dict[str, Any]:
    size = _whole(args.get("output_size"))
    nature: dict[str, Any] = {
        "type": _text(args.get("op_name")),
        "shape": _shapes(args.get("output_type_shape")),
        "input_shapes": _shapes(args.get("input_type_shape")),
        "provider": _text(args.get("provider")),
    }
    if size is not None and size >= 0:
        nature["memory_bytes"], nature["memory_kind"] = size, "outputs"
    return {name: value for name, value in nature.items() if value is not None}


def _shapes(told: Any) -> list[Any] | None:
    """Return the shapes of `[{"float": [1, 8]}, …]`; of one the shape itself."""
    if not isinstance(told, list):
        return None
    found = [shape for each in told if isinstance(each, dict) for shape in each.values()]
    if not all(isinstance(shape, list) and all(map(_is_size, shape)) for shape in found):
        return None
    return found[0] if len(found) == 1 else found


def _is_size(value: Any) -> bool:
    return type(value) is int and value < 1 << 63


def _text(value: Any) -> str | None:
    return plain_text(value) if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    """Return a whole number that 64 bits hold, which texts tell here; None where there is none."""
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", str(value)) else None
