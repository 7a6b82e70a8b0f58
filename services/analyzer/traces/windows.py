"""Windows of a prepared trace as Arrow: spans, or tiles where they are too many. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise

import numpy as np
import polars as pl

from mlscope.tracing.depths import MOST_DEPTH
from mlscope.tracing.tiles import MOST_PIXELS, Rows, Tiles, fitted, power_of_two
from schemas.trace import SPAN_COLUMNS, ShowWindow
from services.analyzer.traces.resolutions import Prepared, Resolution


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a window, how many `spans` they stand for, and below which length they do."""

    frame: pl.DataFrame
    spans: int
    min_ns: int

    def encoded(self) -> bytes:
        """Return the rows as an Arrow stream, uncompressed as browsers' readers need it."""
        stream = BytesIO()
        self.frame.write_ipc_stream(stream, compression="uncompressed")
        return stream.getvalue()


def window_of(trace: Prepared, request: ShowWindow) -> Window | None:
    """Return the spans of `trace` that touch the requested window, as few rows as requested.

    None means that this takes the spans of a trace that is not whole.
    """
    columns = [name for name in SPAN_COLUMNS if name in request.columns or not request.columns]
    width_ns = power_of_two(request.min_ns) if request.min_ns else 0.0
    resolution = trace.resolution_for(width_ns)
    if resolution is None:
        return None
    first, last = _touching(trace, resolution, request)
    if width_ns == 0 and int((last - first).sum()) > request.limit:
        begin_ns, end_ns = trace.range_ns
        window_ns = min(request.to_ns, end_ns) - max(request.from_ns, begin_ns)
        resolution = trace.resolution_for(power_of_two(window_ns / MOST_PIXELS)) or resolution
        width_ns = resolution.width_ns
        first, last = _touching(trace, resolution, request)
    tiles, min_ns = fitted(resolution.tiles.between(first, last), width_ns, request.limit)
    return Window(_frame(resolution, tiles, columns), int(tiles.count.sum()), int(min_ns))


def _touching(trace: Prepared, resolution: Resolution, request: ShowWindow) -> tuple[Rows, Rows]:
    """Return the first tile and the end of what touches the window, for each lane and depth."""
    chosen: list[tuple[int, int]] = []
    chosen_lanes = frozenset(request.lanes)
    tiles = resolution.tiles
    for (lane, depth), (first, last) in zip(
        trace.rows.tolist(), pairwise(resolution.bounds.tolist()), strict=True
    ):
        if chosen_lanes and lane not in chosen_lanes:
            continue
        start = tiles.start[first:last]
        begin = 0
        if depth < MOST_DEPTH:  # spans of the deepest row may overlap
            ends = start + np.maximum(tiles.duration[first:last], 1)
            begin = int(np.searchsorted(ends, request.from_ns, side="right"))
        end = int(np.searchsorted(start, request.to_ns, side="left"))
        chosen.append((first + begin, first + max(begin, end)))
    rows = np.array(chosen, np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _frame(resolution: Resolution, tiles: Tiles, columns: Sequence[str]) -> pl.DataFrame:
    """Return tiles with the columns of the span that each is named after."""
    named = [name for name in columns if name in resolution.frame.columns]
    frame = resolution.frame.select(named)
    if tiles is not resolution.tiles:
        frame = frame[tiles.source]
    derived = {
        "start": pl.Series("start", tiles.start),
        "duration": pl.Series("duration", tiles.duration),
        "count": pl.Series("count", tiles.count, dtype=pl.UInt32),
        "busy": pl.Series("busy", tiles.busy, dtype=pl.Float32),
    }
    return frame.with_columns(series for name, series in derived.items() if name in columns).select(
        columns
    )
