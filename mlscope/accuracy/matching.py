"""Which found shapes are hits: COCO's greedy matching, for one class in one image.

Formulas and order follow pycocotools' cocoeval.py (evaluateImg), written over all area ranges and
IoU thresholds at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.accuracy.outcome import require_same_length
from mlscope.accuracy.shapes import Shapes, areas, as_shapes, chosen, overlaps


@dataclass(frozen=True)
class Truth:
    """What is in one image: n shapes, all boxes or all masks."""

    #: boxes [n, 4] (x, y, width, height in pixels) or masks
    shapes: Shapes
    #: any whole numbers, [n]
    classes: NDArray[np.int64]
    #: shapes around many instances: ignored, not counted; [n]
    crowd: NDArray[np.bool_]
    #: pixels by which the area range is chosen; COCO annotates the segment's; [n]
    areas: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("classes", "crowd", "areas"):
            require_same_length(
                f"shapes against {name}", len(self.shapes), len(getattr(self, name))
            )

    @classmethod
    def of(
        cls,
        shapes: Shapes | ArrayLike,
        classes: ArrayLike,
        crowd: ArrayLike | None = None,
        pixels: ArrayLike | None = None,
    ) -> "Truth":
        """Take lists or arrays; by default nothing is a crowd and a shape's area is its own."""
        kept = as_shapes(shapes)
        return cls(
            kept,
            np.asarray(classes, np.int64),
            np.zeros(len(kept), bool) if crowd is None else np.asarray(crowd, bool),
            areas(kept) if pixels is None else np.asarray(pixels, np.float64),
        )


@dataclass(frozen=True)
class Found:
    """What a model found in one image: n shapes, each with a class and a score (more is surer)."""

    shapes: Shapes
    classes: NDArray[np.int64]
    scores: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("classes", "scores"):
            require_same_length(
                f"shapes against {name}", len(self.shapes), len(getattr(self, name))
            )

    @classmethod
    def of(cls, shapes: Shapes | ArrayLike, classes: ArrayLike, scores: ArrayLike) -> "Found":
        """Take lists or arrays."""
        return cls(as_shapes(shapes), np.asarray(classes, np.int64), np.asarray(scores, np.float64))


@dataclass(frozen=True)
class Judged:
    """Found shapes of one class in one image, by falling score, against A area ranges."""

    #: [found]
    scores: NDArray[np.float64]
    #: whether a true shape was matched, [A, thresholds, found]
    matched: NDArray[np.bool_]
    #: whether it counts neither as hit nor as false alarm, [A, thresholds, found]
    ignored: NDArray[np.bool_]
    #: true shapes that count, [A]
    positives: NDArray[np.int64]


def judge(
    truth: Truth,
    found: Found,
    label: int,
    ranges: Sequence[tuple[float, float]],
    thresholds: NDArray[np.float64],
    most: int,
) -> Judged:
    """Match the `most` best found shapes of class `label` to the true ones, best first.

    Each takes the free true shape it overlaps most, from the threshold on; ignored ones (crowds,
    and those outside the area range) only where no other is left, crowds more than once. A shape
    that matches nothing is ignored where its own area is outside the range.
    """
    true_at = np.flatnonzero(truth.classes == label)
    found_at = np.flatnonzero(found.classes == label)
    found_at = found_at[np.argsort(-found.scores[found_at], kind="stable")][:most]
    shapes, crowd = chosen(found.shapes, found_at), truth.crowd[true_at]
    ious = overlaps(shapes, chosen(truth.shapes, true_at), crowd)
    skipped = crowd | _outside(truth.areas[true_at], ranges)
    matched, ignored = _match(ious, skipped, crowd, thresholds)
    ignored |= ~matched & _outside(areas(shapes), ranges)[:, None, :]
    return Judged(found.scores[found_at], matched, ignored, (~skipped).sum(axis=1))


def _outside(
    pixels: NDArray[np.float64], ranges: Sequence[tuple[float, float]]
) -> NDArray[np.bool_]:
    """Whether each area is outside each range, [ranges, shapes]."""
    limits = np.array(ranges)
    return (pixels < limits[:, :1]) | (pixels > limits[:, 1:])


def _match(
    ious: NDArray[np.float64],
    skipped: NDArray[np.bool_],
    crowd: NDArray[np.bool_],
    thresholds: NDArray[np.float64],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell matched and ignored, each [ranges, thresholds, found]; `ious` is [found, true]."""
    found, true = ious.shape
    shape = len(skipped), len(thresholds), found
    matched, ignored = np.zeros(shape, bool), np.zeros(shape, bool)
    if true == 0:
        return matched, ignored
    free = np.ones((*shape[:2], true), bool)
    least = np.minimum(thresholds, 1 - 1e-10)[None, :, None]
    counted = ~skipped[:, None, :]
    for at, row in enumerate(ious):
        near = (row >= least) & (free | crowd)
        first = near & counted
        wanted = np.where(first.any(axis=2, keepdims=True), first, near)
        # Of equals the last wins, as in the official loop.
        best = true - 1 - np.argmax(np.where(wanted, row, -1.0)[..., ::-1], axis=2)
        hit = wanted.any(axis=2)
        matched[..., at] = hit
        ignored[..., at] = hit & np.take_along_axis(skipped, best, axis=1)
        taken = hit[..., None] & (np.arange(true) == best[..., None])
        free &= ~taken
    return matched, ignored
