"""A prepared trace as bytes: a description, and an Arrow file for each resolution kept. Pure.

The coarsest resolution and the spans are kept; what lies between is made of the spans again, which
is quicker than to read it.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import polars as pl

from mlscope.tracing.tiles import Tiles
from schemas.trace import TraceLane
from services.analyzer.traces.resolutions import (
    SPAN_FIELDS,
    Prepared,
    Resolution,
    resolutions_of,
)

FORMAT = 1
"""The version of description and files: raise it when either, or how a trace is prepared, changes.
"""
SPANS, OUTLINE = 0, 1
"""The numbers of the resolutions that are kept."""
_TILE_FIELDS = ("longest", "count", "busy_ns")


def description_of(trace: Prepared) -> dict[str, Any]:
    """Return what must be known of a `trace` besides its spans, as JSON has it."""
    return {
        "lanes": [lane.model_dump(mode="json") for lane in trace.lanes],
        "rows": trace.rows.tolist(),
        "range_ns": list(trace.range_ns),
        "spans": trace.spans,
        "width_ns": trace.resolutions[-1].width_ns,
    }


def encoded(trace: Prepared) -> Mapping[int, bytes]:
    """Return the files of a whole `trace` by the number of the resolution."""
    outline = trace.resolutions[-1]
    tiles = {name: getattr(outline.tiles, name) for name in ("start", "duration", *_TILE_FIELDS)}
    frame = outline.frame.with_columns(pl.Series(name, column) for name, column in tiles.items())
    return {SPANS: _file_of(trace.frame), OUTLINE: _file_of(frame)}


def outline_of(description: Mapping[str, Any], file: bytes) -> Prepared:
    """Return a trace of tiles only, from its `description` and the `file` of its outline."""
    frame = pl.read_ipc(file)
    rows = np.array(description["rows"], np.int64).reshape(-1, 2)
    codes = frame["lane"].to_numpy().astype(np.int64) << 8 | frame["depth"].to_numpy()
    row = np.searchsorted(rows[:, 0] << 8 | rows[:, 1], codes).astype(np.int32)
    longest, count, busy_ns = (frame[name].to_numpy() for name in _TILE_FIELDS)
    tiles = Tiles(
        row=row,
        start=frame["start"].to_numpy(),
        duration=frame["duration"].to_numpy(),
        source=np.arange(len(row), dtype=np.int32),
        longest=longest,
        count=count,
        busy_ns=busy_ns,
    )
    bounds = np.searchsorted(row, np.arange(len(rows) + 1)).astype(np.int64)
    resolution = Resolution(description["width_ns"], frame.select(SPAN_FIELDS), tiles, bounds)
    first, last = description["range_ns"]
    lanes = lanes_of(description)
    return Prepared(lanes, rows, (first, last), description["spans"], [resolution])


def whole_of(description: Mapping[str, Any], file: bytes) -> Prepared:
    """Return a whole trace, from its `description` and the `file` of its spans."""
    return resolutions_of(pl.read_ipc(file), lanes_of(description))


def lanes_of(description: Mapping[str, Any]) -> Sequence[TraceLane]:
    """Return the lanes that a `description` lists."""
    return [TraceLane(**lane) for lane in description["lanes"]]


def _file_of(frame: pl.DataFrame) -> bytes:
    file = BytesIO()
    frame.write_ipc(file, compression="zstd")
    return file.getvalue()
