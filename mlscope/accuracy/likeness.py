"""Whether two evaluations' shapes, texts and maps are alike, by sample as in `comparison`."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.accuracy.comparison import AGREEMENT, Comparison, compared_by
from mlscope.accuracy.errors import NotANumber, ShapesDiffer
from mlscope.accuracy.shapes import boxes_of_corners, overlaps
from mlscope.accuracy.text import edit_distance

Shape = tuple[str, float, tuple[float, ...]]
"""Class, probability, and corners (left, top, right, bottom) of one shape."""

#: overlap from which two boxes of one class are the same shape, as in COCO's AP50
SAME = 0.5
MATCHED, OVERLAP, APART = "matched shapes", "overlap of matched", "max difference of matched"
EQUAL, EDITS = "equal texts", "character edits"
PIXELS, IOU = "equal pixels", "mIoU"
_SHAPES = {
    MATCHED: "2 matched / all of both, one of each class and IoU 0.5; none on both sides is 1",
    OVERLAP: "IoU",
    APART: "of probabilities",
}
_TEXTS = {EQUAL: "whole texts", EDITS: "per character of the first"}
_MAPS = {PIXELS: "of all pixels", IOU: "classes of either"}


def compare_shapes(
    first: Mapping[str, Sequence[Shape]], second: Mapping[str, Sequence[Shape]]
) -> Comparison:
    """Compare boxes: how many are the same, how well those overlap, how far they differ.

    Boxes are matched greedily, the first evaluation's surest one first, each with the free box of
    its class that it overlaps most, from IoU 0.5 on. Raises NotANumber naming the sample.
    """
    found = {}
    for name in first.keys() & second.keys():
        one, other = first[name], second[name]
        pairs = _matched(name, one, other)
        total = len(one) + len(other)
        found[name] = {
            MATCHED: 2 * len(pairs) / total if total else 1.0,
            OVERLAP: sum(iou for *_, iou in pairs) / len(pairs) if pairs else None,
            APART: max((abs(one[a][1] - other[b][1]) for a, b, _ in pairs), default=None),
            AGREEMENT: float(_surest(one) == _surest(other)),
        }
    return compared_by(found, first, second, _SHAPES)


def compare_texts(first: Mapping[str, str], second: Mapping[str, str]) -> Comparison:
    """Compare texts: whether they are equal, and edits per character of the first.

    A text against an empty first one counts 1 edit a character, an empty one against it 0.
    """
    found: dict[str, dict[str, float | None]] = {}
    for name in first.keys() & second.keys():
        one, other = first[name], second[name]
        edits = edit_distance(one, other)
        found[name] = {
            EQUAL: float(one == other),
            EDITS: edits / max(len(one), 1),
            AGREEMENT: float(one == other),
        }
    return compared_by(found, first, second, _TEXTS)


def compare_maps(first: Mapping[str, ArrayLike], second: Mapping[str, ArrayLike]) -> Comparison:
    """Compare maps of classes [height, width]: equal pixels, and mean IoU over classes of either.

    Raises ShapesDiffer naming the sample.
    """
    found: dict[str, dict[str, float | None]] = {}
    for name in first.keys() & second.keys():
        one, other = np.asarray(first[name]), np.asarray(second[name])
        if one.shape != other.shape:
            raise ShapesDiffer(f"maps of sample {name}", one.shape, other.shape)
        found[name] = {
            PIXELS: float((one == other).mean()),
            IOU: _mean_iou(one, other),
            AGREEMENT: float(_commonest(one) == _commonest(other)),
        }
    return compared_by(found, first, second, _MAPS)


def _matched(
    name: str, one: Sequence[Shape], other: Sequence[Shape]
) -> list[tuple[int, int, float]]:
    """Pairs of places with their overlap."""
    ious = overlaps(_boxes(name, one), _boxes(name, other))
    free = set(range(len(other)))
    pairs = []
    for place in sorted(range(len(one)), key=lambda at: -one[at][1]):
        same = [at for at in free if other[at][0] == one[place][0] and ious[place, at] >= SAME]
        if same:
            best = max(same, key=lambda at: (ious[place, at], -at))
            free.discard(best)
            pairs.append((place, best, float(ious[place, best])))
    return pairs


def _boxes(name: str, shapes: Sequence[Shape]) -> NDArray[np.float64]:
    boxes = boxes_of_corners([corners for *_, corners in shapes])
    if not np.isfinite(boxes).all():
        raise NotANumber(name)
    return boxes


def _surest(shapes: Sequence[Shape]) -> str:
    """Class of the surest shape, '' of none."""
    return max(shapes, key=lambda shape: shape[1])[0] if shapes else ""


def _mean_iou(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    # Counting once is linear in the pixels, however many classes a map claims to have.
    classes, places = np.unique(np.stack([one, other]), return_inverse=True)
    first, second = places.reshape(2, -1)
    shared, *each = (
        np.bincount(some, minlength=classes.size)
        for some in (first[first == second], first, second)
    )
    return float(np.mean(shared / (each[0] + each[1] - shared)))


def _commonest(pixels: NDArray[np.int64]) -> int:
    values, counts = np.unique(pixels, return_counts=True)
    return int(values[np.argmax(counts)])
