"""Boxes and masks as COCO writes them, and their overlap. Pure.

Boxes are float64 [n, 4]: x and y of the upper left corner, width and height, in pixels. Masks are
run lengths down the columns, starting with a run of zeros (COCO's uncompressed RLE).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.accuracy.errors import ShapesDiffer, Unusable

MOST_PIXELS = 2**25
"""Most pixels of a mask or a map: a few bytes of run lengths could need any amount of memory."""
_MOST_BITS = 30
"""Of a run: it is no longer than a mask. A number that grows with each character would take hours.
"""


@dataclass(frozen=True)
class Mask:
    """The mask of one instance.

    Raises ShapesDiffer where the runs do not fill height x width, Unusable above `MOST_PIXELS`.
    """

    height: int
    width: int
    #: alternating lengths of runs of 0 and of 1, column after column
    runs: tuple[int, ...]

    def __post_init__(self) -> None:
        require_pixels(self.height, self.width)
        if min(self.runs, default=0) < 0 or sum(self.runs) != self.height * self.width:
            raise ShapesDiffer("runs against pixels", sum(self.runs), self.height * self.width)


Boxes: TypeAlias = NDArray[np.float64]
Shapes: TypeAlias = Boxes | Sequence[Mask]


def require_pixels(height: int, width: int) -> None:
    """Raise Unusable unless a picture of this size has at most `MOST_PIXELS` pixels."""
    if min(height, width) < 0 or height * width > MOST_PIXELS:
        allowed = f"0 to {MOST_PIXELS} pixels"
        raise Unusable("the size of a mask or map", f"{height} x {width}", allowed)


def map_of_runs(runs: Sequence[Sequence[int]], size: Sequence[int]) -> NDArray[np.int64]:
    """Decode `runs` of (class, pixels), row after row, to [height, width], the `size`.

    Size and runs are checked before anything is decoded. Raises Unusable, ShapesDiffer.
    """
    height, width = (int(side) for side in size)
    require_pixels(height, width)
    lengths = [int(length) for _, length in runs]
    if min(lengths, default=0) < 0 or sum(lengths) != height * width:
        raise ShapesDiffer("runs against pixels", sum(lengths), height * width)
    classes = [int(label) for label, _ in runs]
    if any(not -MOST_PIXELS <= label <= MOST_PIXELS for label in classes):
        raise Unusable("a class of a map", max(classes, key=abs), f"up to {MOST_PIXELS}")
    return np.repeat(np.array(classes, np.int64), lengths).reshape(height, width)


def mask_of(pixels: ArrayLike) -> Mask:
    """Encode a mask [height, width] of zeros and ones (or False and True). Raises ShapesDiffer."""
    table = np.asarray(pixels).astype(bool)
    if table.ndim != 2:
        raise ShapesDiffer("mask [height, width]", table.shape, 2)
    flat = table.ravel(order="F")
    turns = np.flatnonzero(np.diff(flat)) + 1
    runs = np.diff(np.concatenate([[0], turns, [flat.size]])).tolist()
    start = [0] if flat.size and flat[0] else []
    return Mask(table.shape[0], table.shape[1], tuple(start + runs))


def pixels_of(mask: Mask) -> NDArray[np.bool_]:
    """Decode a mask to [height, width]."""
    is_mask = np.arange(len(mask.runs)) % 2 == 1
    return np.repeat(is_mask, mask.runs).reshape((mask.height, mask.width), order="F")


def decompressed(text: str, height: int, width: int) -> Mask:
    """Read COCO's compressed `counts` in `text`, a mask of `height` by `width` pixels.

    A run is written in groups of five bits from the lowest, one character (48 + bits, +32 where
    more follow) a group, with the sign in the last; from the fourth run on it is the difference to
    the run two before (pycocotools, maskApi.c, rleFrString). Raises Unusable for other characters,
    ShapesDiffer for runs that do not fill the mask.
    """
    runs: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64:
            raise Unusable("a character of counts", character, "'0' to 'o'")
        if shift > _MOST_BITS:
            raise Unusable("a run of counts", f"more than {_MOST_BITS} bits", "a number of pixels")
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        value = shift = 0
    return Mask(height, width, tuple(runs))


def boxes_of_corners(corners: ArrayLike) -> Boxes:
    """Return boxes [n, 4] from corners [n, 4] (left, top, right, bottom) in pixels."""
    table = _rows_of_four(corners)
    return np.concatenate([table[:, :2], table[:, 2:] - table[:, :2]], axis=1)


def as_shapes(shapes: Shapes | ArrayLike) -> Shapes:
    """Return masks as they are, anything else as boxes [n, 4]. Raises ShapesDiffer."""
    if isinstance(shapes, list | tuple):
        masks = [shape for shape in shapes if isinstance(shape, Mask)]
        if masks and len(masks) == len(shapes):
            return masks
    return _rows_of_four(np.asarray(shapes, np.float64))


def areas(shapes: Shapes) -> NDArray[np.float64]:
    """Return how many pixels each shape covers, [n]."""
    if isinstance(shapes, np.ndarray):
        return np.asarray(shapes[:, 2] * shapes[:, 3], np.float64)
    return np.array([sum(mask.runs[1::2]) for mask in shapes], np.float64)


def select(shapes: Shapes, indices: NDArray[np.int64]) -> Shapes:
    """Return the shapes at these indices, in their order."""
    if isinstance(shapes, np.ndarray):
        return shapes[indices]
    return [shapes[index] for index in indices]


def intersections(detected: Shapes, true: Shapes) -> NDArray[np.float64]:
    """Return how many pixels each pair shares, [detected, true]. Raises ShapesDiffer."""
    if isinstance(detected, np.ndarray) and isinstance(true, np.ndarray):
        start = np.maximum(detected[:, None, :2], true[None, :, :2])
        detected_end = detected[:, None, :2] + detected[:, None, 2:]
        true_end = true[None, :, :2] + true[None, :, 2:]
        sides = np.clip(np.minimum(detected_end, true_end) - start, 0.0, None)
        return np.asarray(sides[..., 0] * sides[..., 1], np.float64)
    if isinstance(detected, np.ndarray) or isinstance(true, np.ndarray):
        raise ShapesDiffer("boxes against masks", type(detected).__name__, type(true).__name__)
    rows = [[shared_pixels(row, column) for column in true] for row in detected]
    return np.array(rows, np.float64)


def overlaps(detected: Shapes, true: Shapes, crowd: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return the intersection over union [detected, true], 0 to 1 except for rounding; 0 if empty.

    For a `true` shape marked in `crowd` the union is the area of the detection alone: being inside
    is enough (COCO). Raises ShapesDiffer for boxes against masks, and for masks of different size.
    """
    if len(detected) == 0 or len(true) == 0:
        return np.zeros((len(detected), len(true)))
    shared = intersections(detected, true)
    detected_areas = areas(detected)[:, None]
    union = detected_areas + areas(true)[None, :] - shared
    if crowd is not None:
        union = np.where(np.asarray(crowd, bool)[None, :], detected_areas, union)
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def shared_pixels(first: Mask, second: Mask) -> int:
    """Return how many pixels are in both masks, by merging their runs. Raises ShapesDiffer."""
    if (first.height, first.width) != (second.height, second.width):
        sizes = (first.height, first.width), (second.height, second.width)
        raise ShapesDiffer("size of masks", *sizes)
    turns = np.cumsum(first.runs), np.cumsum(second.runs)
    ends = np.sort(np.concatenate(turns))
    starts = np.concatenate([[0], ends[:-1]])
    in_first, in_second = (np.searchsorted(turn, starts, side="right") % 2 == 1 for turn in turns)
    return int((ends - starts)[in_first & in_second].sum())


def _rows_of_four(values: ArrayLike) -> Boxes:
    table = np.asarray(values, np.float64)
    if table.size == 0:
        return np.zeros((0, 4))
    if table.ndim != 2 or table.shape[1] != 4:
        raise ShapesDiffer("boxes [n, 4]", table.shape, 4)
    return table
