"""Polygons as COCO draws them: outlines in pixels become masks of run lengths.

Transcribed from pycocotools, maskApi.c, rleFrPoly: the outline is walked at five times the
resolution, and where it crosses the middle of a column a run begins or ends.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.accuracy.errors import ShapesDiffer, Unusable
from mlscope.accuracy.shapes import Mask, mask_of, pixels_of, require_pixels

_SCALE = 5
MOST_STEPS = 2**22
"""Points of an outline that is walked: a few numbers could ask for any memory."""


def mask_of_outlines(outlines: Sequence[ArrayLike], height: int, width: int) -> Mask:
    """Return what some outlines [x, y, x, y…] cover together.

    Raises ShapesDiffer for numbers that are no outline, Unusable for ones too far away.
    """
    require_pixels(height, width)
    masks = [_mask(np.asarray(each, np.float64), height, width) for each in outlines]
    if not masks:
        raise ShapesDiffer("outlines of an object", 0, "1 or more")
    if len(masks) == 1:
        return masks[0]
    return mask_of(np.any([pixels_of(each) for each in masks], axis=0))


def _mask(outline: NDArray[np.float64], height: int, width: int) -> Mask:
    if outline.ndim != 1 or outline.size < 6 or outline.size % 2:
        raise ShapesDiffer("outline [x, y, ...]", outline.shape, "3 or more points")
    corners = outline.reshape(-1, 2)
    if not np.isfinite(corners).all() or np.abs(corners).max() > MOST_STEPS:
        raise Unusable("an outline", float(np.abs(corners).max()), f"up to {MOST_STEPS}")
    # A cast to int in C cuts toward zero.
    points = np.trunc(_SCALE * corners + 0.5).astype(np.int64)
    x, y = _walked(points, np.roll(points, -1, axis=0))
    before, behind = x[:-1], x[1:]
    column = (np.where(behind < before, behind, behind - 1) + 0.5) / _SCALE - 0.5
    row = np.ceil(np.clip((np.minimum(y[1:], y[:-1]) + 0.5) / _SCALE - 0.5, 0, height))
    kept = (before != behind) & (np.floor(column) == column) & (column >= 0) & (column < width)
    return _filled(
        column[kept].astype(np.int64) * height + row[kept].astype(np.int64), height, width
    )


def _walked(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Return x and y of every point of the edges, one by one: the longer side's steps are 1."""
    x_side, y_side = np.abs(ends - starts).T
    counts = np.maximum(x_side, y_side) + 1
    if counts.sum() > MOST_STEPS:
        raise Unusable("an outline's length", int(counts.sum()), f"up to {MOST_STEPS}")
    is_wide = x_side >= y_side
    flip = np.where(is_wide, starts[:, 0] > ends[:, 0], starts[:, 1] > ends[:, 1])
    low = np.where(flip[:, None], ends, starts)
    rise = np.where(flip[:, None], starts, ends) - low
    longer, shorter = np.where(is_wide, rise.T, rise.T[::-1])
    slope = shorter / np.maximum(longer, 1)
    edge = np.repeat(np.arange(len(counts)), counts)
    step = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    step = np.where(flip[edge], counts[edge] - 1 - step, step)
    origin = np.where(is_wide, low.T[::-1], low.T)[0][edge]
    aside = np.trunc(origin + slope[edge] * step + 0.5).astype(np.int64)
    along = np.where(is_wide, *low.T)[edge] + step
    return np.where(is_wide[edge], along, aside), np.where(is_wide[edge], aside, along)


def _filled(turns: NDArray[np.int64], height: int, width: int) -> Mask:
    """Return the mask whose pixels, by columns, change at each turn; at two of them not at all."""
    places, counts = np.unique(turns, return_counts=True)
    places = places[(counts % 2 == 1) & (places < height * width)]
    return Mask(height, width, tuple(np.diff([0, *places.tolist(), height * width]).tolist()))
