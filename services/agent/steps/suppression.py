"""Overlaps of boxes, and leaving out those that overlap better ones."""

from typing import Any

import numpy as np
import numpy.typing as npt

Boxes = npt.NDArray[np.float64]


def overlaps(one: Boxes, other: Boxes) -> npt.NDArray[np.float64]:
    """Return the IoU (n, m), 0 to 1, of boxes (n, 4) and (m, 4) of corners xmin, ymin, xmax, ymax.

    Intersection over union; 0 where both are empty. Within 1e-6 of torchvision.ops.box_iou.
    """
    low = np.maximum(one[:, np.newaxis, :2], other[np.newaxis, :, :2])
    high = np.minimum(one[:, np.newaxis, 2:], other[np.newaxis, :, 2:])
    shared = np.asarray(np.clip(high - low, 0.0, None).prod(axis=2), np.float64)
    whole = _areas(one)[:, np.newaxis] + _areas(other)[np.newaxis] - shared
    share = np.zeros_like(shared)
    np.divide(shared, whole, out=share, where=whole > 0)
    return share


def suppressed(
    boxes: Boxes, scores: npt.NDArray[Any], classes: npt.NDArray[Any], threshold: float
) -> npt.NDArray[np.int64]:
    """Return the places of the boxes that stay, best first: non-maximum suppression by class.

    A box goes that overlaps a better one of its class by more than `threshold` (IoU). Ties go to
    the lower place. As torchvision.ops.batched_nms.
    """
    waiting = np.argsort(-scores, kind="stable")
    kept = []
    while len(waiting):
        best, rest = waiting[0], waiting[1:]
        kept.append(int(best))
        overlap = overlaps(boxes[best : best + 1], boxes[rest])[0]
        waiting = rest[(overlap <= threshold) | (classes[rest] != classes[best])]
    return np.array(kept, np.int64)


def _areas(boxes: Boxes) -> npt.NDArray[np.float64]:
    sides: npt.NDArray[np.float64] = np.clip(boxes[:, 2:] - boxes[:, :2], 0.0, None)
    return np.asarray(sides.prod(axis=1))
