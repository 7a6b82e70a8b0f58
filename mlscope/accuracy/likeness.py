"""Similarity of two evaluations' shapes, texts and maps, by sample as in `comparison`. Pure."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.accuracy.comparison import AGREEMENT, Comparison, compare_by_measures
from mlscope.accuracy.errors import NotANumber, ShapesDiffer
from mlscope.accuracy.shapes import boxes_of_corners, overlaps
from mlscope.accuracy.text import edit_distances

Shape = tuple[str, float, tuple[float, ...]]
"""Class, probability, and corners (left, top, right, bottom) of one shape."""

#: IoU from which two boxes of one class are the same shape, as in COCO's AP50
SAME_SHAPE_IOU = 0.5
MATCHED, OVERLAP, DIFFERENCE = "matched shapes", "overlap of matched", "max difference of matched"
EQUAL, EDITS = "equal texts", "character edits"
PIXELS, IOU = "equal pixels", "mIoU"
_SHAPES = {
    MATCHED: "Dice: 2 x matched / shapes in both (same class, IoU >= 0.5); 1 if both have none",
    OVERLAP: "IoU",
    DIFFERENCE: "of probabilities",
}
_TEXTS = {EQUAL: "whole texts", EDITS: "per character of the first"}
_MAPS = {PIXELS: "of all pixels", IOU: "classes of either"}


def compare_shapes(
    first: Mapping[str, Sequence[Shape]], second: Mapping[str, Sequence[Shape]]
) -> Comparison:
    """Compare boxes: the share that match, their mean IoU, and how far their probabilities differ.

    Boxes match greedily: the first evaluation's most probable one first, each with the free box of
    its class that it overlaps most, from IoU 0.5 on. Raises NotANumber, naming the sample.
    """
    by_sample = {}
    for name in first.keys() & second.keys():
        first_shapes, second_shapes = first[name], second[name]
        pairs = _match_shapes(name, first_shapes, second_shapes)
        total = len(first_shapes) + len(second_shapes)
        by_sample[name] = {
            MATCHED: 2 * len(pairs) / total if total else 1.0,
            OVERLAP: sum(iou for *_, iou in pairs) / len(pairs) if pairs else None,
            DIFFERENCE: max(
                (abs(first_shapes[a][1] - second_shapes[b][1]) for a, b, _ in pairs), default=None
            ),
            AGREEMENT: float(
                _most_probable_class(first_shapes) == _most_probable_class(second_shapes)
            ),
        }
    return compare_by_measures(by_sample, first, second, _SHAPES)


def compare_texts(first: Mapping[str, str], second: Mapping[str, str]) -> Comparison:
    """Compare texts: equality, and edits per character of the first text.

    Against an empty first text, the edits themselves count. Of texts that are too long to be
    compared (`edit_distances`) they are unknown.
    """
    names = sorted(first.keys() & second.keys())
    edits = edit_distances((first[name], second[name]) for name in names)
    by_sample: dict[str, dict[str, float | None]] = {}
    for name, distance in zip(names, edits, strict=True):
        first_text, second_text = first[name], second[name]
        by_sample[name] = {
            EQUAL: float(first_text == second_text),
            EDITS: None if distance is None else distance / max(len(first_text), 1),
            AGREEMENT: float(first_text == second_text),
        }
    return compare_by_measures(by_sample, first, second, _TEXTS)


def compare_maps(first: Mapping[str, ArrayLike], second: Mapping[str, ArrayLike]) -> Comparison:
    """Compare maps of classes [height, width]: equal pixels, and mean IoU over classes of either.

    Raises ShapesDiffer, naming the sample.
    """
    by_sample: dict[str, dict[str, float | None]] = {}
    for name in first.keys() & second.keys():
        first_map, second_map = np.asarray(first[name]), np.asarray(second[name])
        if first_map.shape != second_map.shape:
            raise ShapesDiffer(f"maps of sample {name}", first_map.shape, second_map.shape)
        # Counting pixels by class is linear in the pixels, however many classes there are.
        classes, indices = np.unique(np.stack([first_map, second_map]), return_inverse=True)
        first_classes, second_classes = indices.reshape(2, -1)
        equal = first_classes[first_classes == second_classes]
        shared, in_first, in_second = (
            np.bincount(pixels, minlength=classes.size)
            for pixels in (equal, first_classes, second_classes)
        )
        by_sample[name] = {
            PIXELS: float((first_map == second_map).mean()),
            IOU: float(np.mean(shared / (in_first + in_second - shared))),
            AGREEMENT: float(_most_frequent_class(first_map) == _most_frequent_class(second_map)),
        }
    return compare_by_measures(by_sample, first, second, _MAPS)


def _match_shapes(
    name: str, first: Sequence[Shape], second: Sequence[Shape]
) -> list[tuple[int, int, float]]:
    """Return the indices of matching shapes, and their IoU."""
    ious = overlaps(_boxes(name, first), _boxes(name, second))
    free = set(range(len(second)))
    pairs = []
    for index in sorted(range(len(first)), key=lambda position: -first[position][1]):
        label, row = first[index][0], ious[index]
        same = [n for n in free if second[n][0] == label and row[n] >= SAME_SHAPE_IOU]
        if same:
            best = max(same, key=lambda candidate: (row[candidate], -candidate))
            free.discard(best)
            pairs.append((index, best, float(row[best])))
    return pairs


def _boxes(name: str, shapes: Sequence[Shape]) -> NDArray[np.float64]:
    boxes = boxes_of_corners([corners for *_, corners in shapes])
    if not np.isfinite(boxes).all():
        raise NotANumber(name)
    return boxes


def _most_probable_class(shapes: Sequence[Shape]) -> str:
    """Return the class of the most probable shape; '' without shapes."""
    return max(shapes, key=lambda shape: shape[1])[0] if shapes else ""


def _most_frequent_class(pixels: NDArray[np.int64]) -> int:
    values, counts = np.unique(pixels, return_counts=True)
    return int(values[np.argmax(counts)])
