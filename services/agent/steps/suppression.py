"""Overlaps of boxes, and non-maximum suppression."""

from typing import Any

import numpy as np
import numpy.typing as npt

Boxes = npt.NDArray[np.float64]


def overlaps(rows: Boxes, columns: Boxes) -> npt.NDArray[np.float64]:
    """Return the intersection over union (n, m), 0 to 1, of `rows` (n, 4) with `columns` (m, 4).

    A box is xmin, ymin, xmax, ymax. The result is 0 where both boxes are empty. Within 1e-6 of
    torchvision.ops.box_iou.
    """
    low = np.maximum(rows[:, np.newaxis, :2], columns[np.newaxis, :, :2])
    high = np.minimum(rows[:, np.newaxis, 2:], columns[np.newaxis, :, 2:])
    intersection = np.asarray(np.clip(high - low, 0.0, None).prod(axis=2), np.float64)
    union = _areas(rows)[:, np.newaxis] + _areas(columns)[np.newaxis] - intersection
    overlap = np.zeros_like(intersection)
    np.divide(intersection, union, out=overlap, where=union > 0)
    return overlap


def suppressed(
    boxes: Boxes,
    scores: npt.NDArray[Any],
    classes: npt.NDArray[Any],
    threshold: float,
    max_count: int | None = None,
) -> npt.NDArray[np.int64]:
    """Return the indices of the boxes that remain, best first: non-maximum suppression by class.

    `boxes` (n, 4), `scores` (n,) and `classes` (n,) belong together. A box is removed if it
    overlaps a better one of its class by more than `threshold` (intersection over union). Of equal
    scores the lower index is better. As torchvision.ops.batched_nms. Ends at the first `max_count`
    of them, if it is given.
    """
    order = np.argsort(-scores, kind="stable")
    kinds = classes.tolist()
    waiting = {kind: order[classes[order] == kind] for kind in set(kinds)}
    is_removed = np.zeros(len(boxes), np.bool_)
    remaining: list[int] = []
    for best in order.tolist():
        if len(remaining) == max_count:
            break
        if is_removed[best]:
            continue
        remaining.append(best)
        # Of those that wait in its class it is the first.
        worse = waiting[kinds[best]][1:]
        is_removed[worse] = overlaps(boxes[best : best + 1], boxes[worse])[0] > threshold
        waiting[kinds[best]] = worse[~is_removed[worse]]
    return np.array(remaining, np.int64)


def _areas(boxes: Boxes) -> npt.NDArray[np.float64]:
    sides: npt.NDArray[np.float64] = np.clip(boxes[:, 2:] - boxes[:, :2], 0.0, None)
    return np.asarray(sides.prod(axis=1))
