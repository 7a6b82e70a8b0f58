"""Rasterise polygons as COCO does: outlines in pixels become masks of run lengths. Pure.

Transcribed from pycocotools, maskApi.c, rleFrPoly: the outline is traced at five times the
resolution, and a run begins or ends where it crosses the middle of a column.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.accuracy.errors import ShapesDiffer, Unusable
from mlscope.accuracy.shapes import Mask, mask_of, pixels_of, require_pixels

_SCALE = 5
MOST_STEPS = 2**22
"""Most points of a traced outline: a few coordinates could need any amount of memory."""


def mask_of_outlines(outlines: Sequence[ArrayLike], height: int, width: int) -> Mask:
    """Return the mask, `height` by `width` pixels, of the area that any of the `outlines` covers.

    An outline is [x, y, x, y…] in pixels, of three or more points. Raises ShapesDiffer for any
    other list, Unusable for coordinates or a length above MOST_STEPS.
    """
    require_pixels(height, width)
    arrays = [np.asarray(outline, np.float64) for outline in outlines]
    masks = [mask_of_outline(array, height, width) for array in arrays]
    if not masks:
        raise ShapesDiffer("outlines of an object", 0, "1 or more")
    if len(masks) == 1:
        return masks[0]
    return mask_of(np.any([pixels_of(mask) for mask in masks], axis=0))


def mask_of_outline(outline: NDArray[np.float64], height: int, width: int) -> Mask:
    """Return the mask, `height` by `width` pixels, of one `outline` [x, y, x, y…] in pixels.

    Raises ShapesDiffer, Unusable.
    """
    if outline.ndim != 1 or outline.size < 6 or outline.size % 2:
        raise ShapesDiffer("outline [x, y, ...]", outline.shape, "3 or more points")
    corners = outline.reshape(-1, 2)
    if not np.isfinite(corners).all() or np.abs(corners).max() > MOST_STEPS:
        raise Unusable("an outline", float(np.abs(corners).max()), f"up to {MOST_STEPS}")
    # A cast to int in C truncates toward zero.
    points = np.trunc(_SCALE * corners + 0.5).astype(np.int64)
    x, y = _edge_points(points, np.roll(points, -1, axis=0))
    before, after = x[:-1], x[1:]
    column = (np.where(after < before, after, after - 1) + 0.5) / _SCALE - 0.5
    row = np.ceil(np.clip((np.minimum(y[1:], y[:-1]) + 0.5) / _SCALE - 0.5, 0, height))
    is_turn = (before != after) & (np.floor(column) == column) & (column >= 0) & (column < width)
    turns = column[is_turn].astype(np.int64) * height + row[is_turn].astype(np.int64)
    # Two turns at one pixel cancel out.
    pixels, counts = np.unique(turns, return_counts=True)
    pixels = pixels[(counts % 2 == 1) & (pixels < height * width)]
    return Mask(height, width, tuple(np.diff([0, *pixels.tolist(), height * width]).tolist()))


def _edge_points(
    starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], ...]:
    """Return x and y of every point of the edges in order, in steps of 1 along the longer side."""
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
