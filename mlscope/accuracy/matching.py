"""COCO's greedy matching of detections and true shapes, for one class in one image. Pure.

Formulas and order follow pycocotools' cocoeval.py (evaluateImg), written over all area ranges and
IoU thresholds at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.accuracy.outcome import require_same_length
from mlscope.accuracy.shapes import Shapes, areas, as_shapes, overlaps, select


@dataclass(frozen=True)
class TrueShapes:
    """The n true shapes in one image, all boxes or all masks."""

    #: boxes [n, 4] (x, y, width, height in pixels) or masks
    shapes: Shapes
    #: any integers, [n]
    classes: NDArray[np.int64]
    #: whether a shape covers a crowd of instances: ignored, not counted; [n]
    crowd: NDArray[np.bool_]
    #: pixels that choose the area range; COCO annotates those of the segment; [n]
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
    ) -> "TrueShapes":
        """Return the true shapes from lists or arrays.

        `shapes` are masks or boxes [n, 4], `classes` integers [n]. By default no shape is a `crowd`
        and `pixels`, the areas, are the shapes' own. Raises ShapesDiffer.
        """
        as_given = as_shapes(shapes)
        return cls(
            as_given,
            np.asarray(classes, np.int64),
            np.zeros(len(as_given), bool) if crowd is None else np.asarray(crowd, bool),
            areas(as_given) if pixels is None else np.asarray(pixels, np.float64),
        )


@dataclass(frozen=True)
class DetectedShapes:
    """The n shapes that a model detected in one image, each with a class and a score."""

    shapes: Shapes
    classes: NDArray[np.int64]
    scores: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("classes", "scores"):
            require_same_length(
                f"shapes against {name}", len(self.shapes), len(getattr(self, name))
            )

    @classmethod
    def of(
        cls, shapes: Shapes | ArrayLike, classes: ArrayLike, scores: ArrayLike
    ) -> "DetectedShapes":
        """Return the detections from lists or arrays.

        `shapes` are masks or boxes [n, 4], `classes` integers [n], `scores` numbers [n], higher for
        a more certain shape. Raises ShapesDiffer.
        """
        return cls(as_shapes(shapes), np.asarray(classes, np.int64), np.asarray(scores, np.float64))


@dataclass(frozen=True)
class MatchedShapes:
    """Detections of one class in one image, by falling score, matched for A area ranges."""

    #: [detections]
    scores: NDArray[np.float64]
    #: whether the detection matches a true shape, [A, thresholds, detections]
    matched: NDArray[np.bool_]
    #: whether it counts neither as hit nor as false alarm, [A, thresholds, detections]
    ignored: NDArray[np.bool_]
    #: true shapes that count, [A]
    positives: NDArray[np.int64]


def match_detections(
    truth: TrueShapes,
    detected: DetectedShapes,
    label: int,
    ranges: Sequence[tuple[float, float]],
    thresholds: NDArray[np.float64],
    limit: int,
) -> MatchedShapes:
    """Match the `limit` best detections of class `label` with the true shapes, best first.

    For each of the area `ranges` (pixels, from and to) and IoU `thresholds`, a detection in
    `detected` takes the free shape of `truth` that it overlaps most, if by at least the threshold.
    It takes an ignored one (a crowd, or a shape outside the area range) only if no other is free; a
    crowd can match several times. A detection without a match is ignored if its own area is outside
    the range (pycocotools, cocoeval.py, evaluateImg).
    """
    true_at = np.flatnonzero(truth.classes == label)
    detected_at = np.flatnonzero(detected.classes == label)
    by_score = np.argsort(-detected.scores[detected_at], kind="stable")
    detected_at = detected_at[by_score][:limit]
    shapes, crowd = select(detected.shapes, detected_at), truth.crowd[true_at]
    ious = overlaps(shapes, select(truth.shapes, true_at), crowd)
    skipped = crowd | _outside(truth.areas[true_at], ranges)
    matched, ignored = _match(ious, skipped, crowd, thresholds)
    ignored |= ~matched & _outside(areas(shapes), ranges)[:, None, :]
    return MatchedShapes(detected.scores[detected_at], matched, ignored, (~skipped).sum(axis=1))


def _outside(
    pixels: NDArray[np.float64], ranges: Sequence[tuple[float, float]]
) -> NDArray[np.bool_]:
    """Return whether each area is outside each range, [ranges, shapes]."""
    limits = np.array(ranges)
    return (pixels < limits[:, :1]) | (pixels > limits[:, 1:])


def _match(
    ious: NDArray[np.float64],
    skipped: NDArray[np.bool_],
    crowd: NDArray[np.bool_],
    thresholds: NDArray[np.float64],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return matched and ignored, each [ranges, thresholds, detections].

    `ious` is [detections, true shapes], `skipped` [ranges, true shapes], `crowd` [true shapes].
    """
    detections, true_shapes = ious.shape
    shape = len(skipped), len(thresholds), detections
    matched, ignored = np.zeros(shape, bool), np.zeros(shape, bool)
    if true_shapes == 0:
        return matched, ignored
    free = np.ones((*shape[:2], true_shapes), bool)
    least = np.minimum(thresholds, 1 - 1e-10)[None, :, None]
    counted = ~skipped[:, None, :]
    for index, row in enumerate(ious):
        candidates = (row >= least) & (free | crowd)
        not_skipped = candidates & counted
        preferred = np.where(not_skipped.any(axis=2, keepdims=True), not_skipped, candidates)
        # Among equals the last wins, as in the official loop.
        best = true_shapes - 1 - np.argmax(np.where(preferred, row, -1.0)[..., ::-1], axis=2)
        hit = preferred.any(axis=2)
        matched[..., index] = hit
        ignored[..., index] = hit & np.take_along_axis(skipped, best, axis=1)
        free &= ~(hit[..., None] & (np.arange(true_shapes) == best[..., None]))
    return matched, ignored
