"""Windows of a prepared trace as Arrow: spans, or tiles where they are too many. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise

import numpy as np
import polars as pl

from mlscope.tracing.depths import MOST_DEPTH
from mlscope.tracing.tiles import Rows, Tiles, fitted, power_of_two
from schemas.trace import SPAN_COLUMNS, ShowWindow
from services.analyzer.traces.prepared import Prepared


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


def window_of(trace: Prepared, request: ShowWindow) -> Window:
    """Return the spans of `trace` that touch the requested window, as few rows as requested."""
    columns = [name for name in SPAN_COLUMNS if name in request.columns or not request.columns]
    width_ns = power_of_two(request.min_ns) if request.min_ns else 0.0
    first, last = _touching(trace.spans, trace, request)
    spans = int((last - first).sum())
    if 0 < trace.base_ns <= width_ns or (spans > request.limit and width_ns == 0):
        first, last = _touching(trace.base, trace, request)
        tiles = trace.base.between(first, last)
        width_ns = max(width_ns, trace.base_ns)
    else:
        tiles = trace.spans.between(first, last)
    tiles, min_ns = fitted(tiles, width_ns, request.limit)
    return Window(_frame(trace, tiles, columns), int(tiles.count.sum()), int(min_ns))


def _touching(tiles: Tiles, trace: Prepared, request: ShowWindow) -> tuple[Rows, Rows]:
    """Return the first row and the end of what touches the window, for each lane and depth."""
    bounds = trace.bounds
    if tiles is not trace.spans:
        bounds = np.searchsorted(tiles.row, np.arange(len(trace.bounds)))
    chosen: list[tuple[int, int]] = []
    lanes, depths = trace.frame["lane"], trace.frame["depth"]
    chosen_lanes = frozenset(request.lanes)
    for number, (first, last) in enumerate(pairwise(bounds.tolist())):
        place = int(trace.bounds[number])
        if chosen_lanes and lanes[place] not in chosen_lanes:
            continue
        start = tiles.start[first:last]
        begin = 0
        if depths[place] < MOST_DEPTH:  # spans of the deepest row may overlap
            ends = start + np.maximum(tiles.duration[first:last], 1)
            begin = int(np.searchsorted(ends, request.from_ns, side="right"))
        end = int(np.searchsorted(start, request.to_ns, side="left"))
        chosen.append((first + begin, first + max(begin, end)))
    rows = np.array(chosen, np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _frame(trace: Prepared, tiles: Tiles, columns: Sequence[str]) -> pl.DataFrame:
    """Return tiles with the columns of the span that each is named after."""
    named = [name for name in columns if name in trace.frame.columns]
    frame = trace.frame.select(named)
    if tiles is not trace.spans:
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
