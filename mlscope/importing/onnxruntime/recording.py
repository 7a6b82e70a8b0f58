"""ONNX Runtime's profile (`enable_profiling`, JSON) as a recording: runs are queries, nodes layers.

Its clock ticks in microseconds and truncates starts and durations. On a GPU a node's time is that
of launching it.
"""

import json
from pathlib import Path

import polars as pl

from mlscope.importing.errors import ForeignFileBroken
from mlscope.importing.files import read_within
from mlscope.importing.onnxruntime.attributes import allocated_memory, key_of, static_attributes
from mlscope.importing.onnxruntime.events import Event, bodies_note, layers_among
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
    events = read_events(path)
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


def read_events(path: Path) -> list[Event]:
    """Return the events of a file, each with a dictionary of `args`. Raises ForeignFileBroken."""
    try:
        elements = json.loads(read_within(path, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise ForeignFileBroken(str(path), f"is cut short or not JSON: {error}") from error
    events = [element for element in elements if isinstance(element, dict)]
    return [
        event | ({} if isinstance(event.get("args"), dict) else {"args": {}}) for event in events
    ]


def _times(events: list[Event]) -> pl.DataFrame:
    """Return the times of events, from their own origin: start_ns, duration_ns, thread."""
    rows = [
        (int(event["ts"]) * 1000, int(event["dur"]) * 1000, int(event["tid"]) % (1 << 31))
        for event in events
    ]
    return pl.DataFrame(rows, ["start_ns", "duration_ns", "thread"], orient="row")


def _layers(nodes: list[Event]) -> pl.DataFrame:
    """Return nodes as layers; their index is their place in the order of their first run.

    (A node's own number counts within its graph: one in a body has the number of one outside.)
    """
    allocated = allocated_memory(nodes)
    indices: dict[tuple[str, str], int] = {}
    for node in nodes:
        indices.setdefault(key_of(node), len(indices))
    texts = [
        json_text(
            {"index": indices[key_of(node)]}
            | static_attributes(node["args"])
            | allocated.get(key_of(node), {})
        ).decode()
        for node in nodes
    ]
    names = [plain_text(str(node["name"])).removesuffix(_KERNEL) for node in nodes]
    return _times(nodes).with_columns(
        pl.Series("name", names, pl.String),
        pl.Series("attributes", texts, pl.String),
        pl.lit(int(Level.FRAMEWORK)).alias("level"),
    )
