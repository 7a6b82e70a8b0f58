"""A run's spans at several resolutions: every span, and tiles for windows of many spans. Pure.

The coarsest resolution is enough for a first picture of the whole run and is small, so that it
can be read before the spans themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from mlscope.tracing.tiles import Tiles, power_of_two, tiled
from schemas.trace import TraceLane
from services.analyzer.traces.columns import Ns

SPAN_FIELDS = ("lane", "depth", "start", "duration", "name", "id", "parent", "query", "kind",
               "correlation", "value")  # fmt: skip
SPAN_BYTES = 68
"""Memory of a prepared span, without its name's text."""
OUTLINED_FROM = 50_000
"""Runs with fewer spans are drawn from the spans alone."""
_OUTLINE_PIXELS = 1 << 13
_BASE_FROM = 1_000_000
_BASE_PIXELS = 1 << 18


@dataclass(frozen=True, slots=True)
class Resolution:
    """Tiles of stretches `width_ns` wide (0: spans), each with the span that it is named after.

    Row i of `frame` is the span of tile i. `bounds` are the first tiles of each row of the
    timeline, and the end.
    """

    width_ns: float
    frame: pl.DataFrame
    tiles: Tiles
    bounds: Ns


@dataclass(frozen=True)
class Prepared:
    """A run's spans, ready to be drawn: `rows` are the lane and depth of each row of the timeline.

    `resolutions` are sorted from the finest; only a whole trace has one of single spans.
    """

    lanes: Sequence[TraceLane]
    rows: npt.NDArray[np.int64]
    range_ns: tuple[int, int]
    #: spans and queries
    spans: int
    resolutions: Sequence[Resolution]

    @property
    def is_whole(self) -> bool:
        """Whether single spans can be shown, not only tiles."""
        return self.resolutions[0].width_ns == 0

    @property
    def frame(self) -> pl.DataFrame:
        """The spans (`SPAN_FIELDS`) of a whole trace."""
        assert self.is_whole, "the spans have been read"
        return self.resolutions[0].frame

    @property
    def size_bytes(self) -> int:
        """The memory that all resolutions take, about."""
        return sum(resolution.frame.height for resolution in self.resolutions) * SPAN_BYTES

    def resolution_for(self, width_ns: float) -> Resolution | None:
        """Return the coarsest resolution of tiles up to `width_ns` wide, None where it is absent.

        A width of 0 is that of the finest.
        """
        fine = [tiles for tiles in self.resolutions if tiles.width_ns <= width_ns]
        return fine[-1] if fine else None


def resolutions_of(frame: pl.DataFrame, lanes: Sequence[TraceLane]) -> Prepared:
    """Return the trace of spans (`SPAN_FIELDS`), sorted by lane, depth and start."""
    row_codes = frame["lane"].to_numpy().astype(np.int32) << 8 | frame["depth"].to_numpy()
    changes = np.flatnonzero(np.diff(row_codes)) + 1
    ends = [[len(row_codes)]] if len(row_codes) else []
    bounds = np.concatenate([[0], changes, *ends]).astype(np.int64)
    codes = row_codes[bounds[:-1]]
    rows = np.stack([codes >> 8, codes & 0xFF], axis=1).astype(np.int64)
    row = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(bounds))
    spans = Tiles.of_spans(row, frame["start"].to_numpy(), frame["duration"].to_numpy())
    ends_ns = pl.col("start") + pl.col("duration")
    first, last = frame.select(pl.col("start").min(), end=ends_ns.max()).row(0)
    range_ns = (int(first), int(last)) if frame.height else (0, 0)
    resolutions = [Resolution(0.0, frame, spans, bounds)]
    for pixels, least_spans in ((_BASE_PIXELS, _BASE_FROM), (_OUTLINE_PIXELS, OUTLINED_FROM)):
        if frame.height >= least_spans:
            width_ns = power_of_two((range_ns[1] - range_ns[0]) / pixels)
            tiles = tiled(resolutions[-1].tiles, width_ns)
            resolutions.append(resolution_of(width_ns, resolutions[-1].frame, tiles, len(rows)))
    return Prepared(lanes, rows, range_ns, frame.height, resolutions)


def resolution_of(width_ns: float, frame: pl.DataFrame, tiles: Tiles, rows: int) -> Resolution:
    """Return the resolution of `tiles`, `width_ns` wide, whose `source` are rows of `frame`.

    `rows` is the number of rows of the timeline.
    """
    bounds = np.searchsorted(tiles.row, np.arange(rows + 1)).astype(np.int64)
    own = Tiles(
        row=tiles.row,
        start=tiles.start,
        duration=tiles.duration,
        source=np.arange(len(tiles), dtype=np.int32),
        longest=tiles.longest,
        count=tiles.count,
        busy_ns=tiles.busy_ns,
    )
    return Resolution(width_ns, frame[tiles.source], own, bounds)
