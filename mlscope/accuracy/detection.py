"""COCO's average precision and recall, of boxes or of instance masks.

Follows the official evaluation (Lin et al. 2014; pycocotools, cocoeval.py) so that the numbers
agree to rounding: greedy matching by falling score, IoU thresholds .50 to .95 by .05, precision
read at 101 recalls, at most 100 shapes a class and image; crowds and shapes outside the area range
are ignored, not counted. Polygons must be rasterised before (`mask_of_outlines`). Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mlscope.accuracy.errors import NotANumber, Unusable
from mlscope.accuracy.matching import DetectedShapes, MatchedShapes, TrueShapes, match_detections
from mlscope.accuracy.outcome import Outcome, require_same_length
from mlscope.accuracy.resampling import image_interval

#: IoU from which a detection matches
THRESHOLDS = np.linspace(0.5, 0.95, 10)
#: recalls at which precision is read
RECALLS = np.linspace(0.0, 1.0, 101)
#: detections a class and image that count; the last unless the number says otherwise
MOST_DETECTIONS = (1, 10, 100)
#: pixels, from and to, both included
AREAS = {
    "all": (0.0, 1e10),
    "small": (0.0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e10),
}
MOST_CLASSES = 4096
"""Classes, true or detected: each takes 100 kB."""
METHOD = "COCO, 101 recalls"
NO_INTERVAL = "no interval: shapes of an image are not independent"
TOO_MANY = "no interval: too many shapes to resample their images"
#: detections times draws above which no interval is computed
MOST_DRAWN = 40_000_000
_DRAWN = {"AP": slice(None), "AP50": slice(0, 1), "AP75": slice(5, 6)}


@dataclass(frozen=True)
class Detection:
    """COCO's twelve numbers, and the average precision of each class."""

    #: AP, AP50, AP75, APsmall, APmedium, APlarge, AR1, AR10, AR100, ARsmall, ARmedium, ARlarge
    outcomes: dict[str, Outcome]
    #: AP (IoU .50:.95, all areas, 100 shapes) of each class that is true or detected anywhere
    by_class: dict[int, Outcome]


@dataclass(frozen=True)
class _Curves:
    """Of C classes, 4 areas, 3 limits of detections, 10 thresholds; NaN where undefined."""

    classes: list[int]
    #: [C, 4, 3, 10, 101]
    precision: NDArray[np.float64]
    #: [C, 4, 3, 10]
    recall: NDArray[np.float64]
    #: one a class, over all areas and with the highest limit
    ranked: list["_Ranked"]

    @classmethod
    def of(cls, images: Sequence[tuple[TrueShapes, DetectedShapes]]) -> Self:
        """Return the curves of each class, area and limit, from truth and detections by image."""
        classes = sorted({int(n) for image in images for shapes in image for n in shapes.classes})
        if len(classes) > MOST_CLASSES:
            raise Unusable("the number of classes", len(classes), f"up to {MOST_CLASSES}")
        shape = len(classes), len(AREAS), len(MOST_DETECTIONS), len(THRESHOLDS)
        precision, recall = np.full((*shape, len(RECALLS)), np.nan), np.full(shape, np.nan)
        areas, limit = list(AREAS.values()), MOST_DETECTIONS[-1]
        ranked = []
        for row, label in enumerate(classes):
            matched = {
                index: match_detections(truth, detected, label, areas, THRESHOLDS, limit)
                for index, (truth, detected) in enumerate(images)
                if label in truth.classes or label in detected.classes
            }
            for column, rank in np.ndindex(len(AREAS), len(MOST_DETECTIONS)):
                cell = row, column, rank
                precision[cell], recall[cell] = _curve(
                    _rank(matched, column, MOST_DETECTIONS[rank])
                )
            ranked.append(_rank(matched, 0, limit))
        return cls(classes, precision, recall, ranked)

    def values_of_numbers(self) -> dict[str, NDArray[np.float64]]:
        """Return, by the names of the twelve numbers, the values of which each is the mean."""
        precision, recall = self.precision, self.recall
        by_area = list(enumerate(AREAS))[1:]
        return {
            "AP": precision[:, 0, -1],
            "AP50": precision[:, 0, -1, 0],
            "AP75": precision[:, 0, -1, 5],
            **{f"AP{area}": precision[:, column, -1] for column, area in by_area},
            **{f"AR{limit}": recall[:, 0, rank] for rank, limit in enumerate(MOST_DETECTIONS)},
            **{f"AR{area}": recall[:, column, -1] for column, area in by_area},
        }


@dataclass(frozen=True)
class _Ranked:
    """The D detections of one class in its J images, by falling score."""

    #: whether the detection matches a true shape, [10, D]
    hits: NDArray[np.bool_]
    #: whether it matches none, [10, D]
    alarms: NDArray[np.bool_]
    #: index of its image in `images`, [D]
    owner: NDArray[np.int64]
    #: indices of the images with this class, [J]
    images: NDArray[np.int64]
    #: true shapes of each image that count, [J]
    positives: NDArray[np.int64]


def average_precision(
    truths: Sequence[TrueShapes], detections: Sequence[DetectedShapes], *, draws: int = 0
) -> Detection:
    """Return COCO's twelve numbers, 0 to 1, of one `detections` and one `truths` entry an image.

    With `draws`, AP, AP50 and AP75 have an interval: the percentile bootstrap over images with as
    many draws; none where they would draw more than `MOST_DRAWN` shapes.

    A class without true shapes (crowds do not count) has no value and is left out of the means, as
    in COCO: its detections cost nothing. Raises ShapesDiffer, Unusable for negative sides or too
    many classes, or NotANumber naming the image.
    """
    require_same_length("images true against detected", len(truths), len(detections))
    images = list(zip(truths, detections, strict=True))
    for index, (truth, detected) in enumerate(images):
        _require_finite_boxes(index, truth, detected)
    curves = _Curves.of(images)
    true_shapes = sum(int((~truth.crowd).sum()) for truth in truths)
    outcomes = {
        name: _outcome(name, values, true_shapes)
        for name, values in curves.values_of_numbers().items()
    }
    if draws:
        outcomes |= _bootstrapped(outcomes, curves.ranked, len(images), draws)
    by_class = {}
    for row, label in enumerate(curves.classes):
        n = sum(int(((truth.classes == label) & ~truth.crowd).sum()) for truth in truths)
        by_class[label] = _outcome(f"AP of class {label}", curves.precision[row, 0, -1], n)
    return Detection(outcomes, by_class)


def _require_finite_boxes(image: int, truth: TrueShapes, detected: DetectedShapes) -> None:
    """Raise NotANumber or Unusable for values of an image that are not finite or negative sides."""
    boxes = [shapes for shapes in (truth.shapes, detected.shapes) if isinstance(shapes, np.ndarray)]
    if not all(np.isfinite(values).all() for values in (truth.areas, detected.scores, *boxes)):
        raise NotANumber(image)
    for values in boxes:
        sides = values[:, 2:]
        if (sides < 0).any():
            raise Unusable(f"a side of a box in image {image}", float(sides.min()), "0 or more")


def _rank(by_image: Mapping[int, MatchedShapes], area: int, limit: int) -> _Ranked:
    """Sort one class's detections of all images by score, at most `limit` an image."""
    images = list(by_image.values())
    positives = np.array([image.positives[area] for image in images], np.int64)
    order = np.argsort(-np.concatenate([image.scores[:limit] for image in images]), kind="stable")
    matched = np.concatenate([image.matched[area, :, :limit] for image in images], axis=1)
    ignored = np.concatenate([image.ignored[area, :, :limit] for image in images], axis=1)
    counts = [len(image.scores[:limit]) for image in images]
    owner = np.repeat(np.arange(len(images)), counts)[order]
    hits, alarms = (matched & ~ignored)[:, order], (~matched & ~ignored)[:, order]
    return _Ranked(hits, alarms, owner, np.array(list(by_image), np.int64), positives)


def _curve(
    ranked: _Ranked, times: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return precision [10, 101] and final recall [10] of one class; NaN without true shapes.

    Each image counts once, or as often as `times` [J] says.
    """
    repeats = np.ones(len(ranked.images), np.int64) if times is None else times
    positives = int((ranked.positives * repeats).sum())
    precision = np.full((len(THRESHOLDS), len(RECALLS)), np.nan)
    if positives == 0:
        return precision, np.full(len(THRESHOLDS), np.nan)
    weights = repeats[ranked.owner]
    hits = np.cumsum(ranked.hits * weights, axis=1)
    alarms = np.cumsum(ranked.alarms * weights, axis=1)
    recall = hits / positives
    right = hits / (hits + alarms + np.spacing(1))
    # Each point takes the best precision at its own or a higher recall.
    right = np.maximum.accumulate(right[:, ::-1], axis=1)[:, ::-1]
    for row in range(len(THRESHOLDS)):
        reached = np.searchsorted(recall[row], RECALLS, side="left")
        precision[row] = np.append(right[row], 0.0)[reached]
    final = recall[:, -1] if ranked.owner.size else np.zeros(len(THRESHOLDS))
    return precision, final


def _bootstrapped(
    outcomes: Mapping[str, Outcome], ranked: Sequence[_Ranked], images: int, draws: int
) -> dict[str, Outcome]:
    """Return the numbers in `_DRAWN` with their intervals."""
    shapes = sum(of_class.owner.size for of_class in ranked)
    if shapes * draws > MOST_DRAWN:
        return {name: replace(outcomes[name], caveats=(TOO_MANY,)) for name in _DRAWN}

    def numbers_of(times: NDArray[np.int64]) -> list[float]:
        curves = [_curve(of_class, times[of_class.images])[0] for of_class in ranked]
        return [
            _mean_of_defined(np.concatenate([curve[part].ravel() for curve in curves]))
            for part in _DRAWN.values()
        ]

    intervals = image_interval(numbers_of, images, draws) or []
    return {
        name: replace(outcomes[name], interval=interval, caveats=())
        for name, interval in zip(_DRAWN, intervals, strict=False)
        if outcomes[name].value is not None
    }


def _mean_of_defined(values: NDArray[np.float64]) -> float:
    """Return the mean of the values that are not NaN; NaN where all are."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


def _outcome(name: str, values: NDArray[np.float64], n: int) -> Outcome:
    """Return the mean of the defined values; `n` counts true shapes of any area."""
    mean = _mean_of_defined(values)
    if np.isnan(mean):
        return Outcome(name, None, n, None, METHOD, ("no true shape to judge",))
    return Outcome(name, mean, n, None, METHOD, (NO_INTERVAL,))
