"""COCO's average precision and recall, of boxes or of instance masks.

Follows the official evaluation (Lin et al. 2014; pycocotools, cocoeval.py) so that the numbers
agree to rounding: greedy matching by falling score, IoU thresholds .50 to .95 by .05, precision
read at 101 recalls, at most 100 shapes a class and image, crowds and shapes outside the area range
ignored rather than counted. Polygons are not rasterised here: give masks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlscope.accuracy.errors import NotANumber, Unusable
from mlscope.accuracy.matching import Found, Judged, Truth, judge
from mlscope.accuracy.outcome import Outcome, require_same_length

#: IoU from which a shape counts as found
THRESHOLDS = np.linspace(0.5, 0.95, 10)
#: recalls at which precision is read
RECALLS = np.linspace(0.0, 1.0, 101)
#: shapes a class and image that are judged; the last holds where nothing else is said
MOST_FOUND = (1, 10, 100)
#: pixels from and to, both included
AREAS = {
    "all": (0.0, 1e10),
    "small": (0.0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e10),
}
METHOD = "COCO, 101 recalls"
NO_INTERVAL = "no interval: shapes of an image are not independent"


@dataclass(frozen=True)
class Detection:
    """COCO's twelve numbers, and the average precision of each class."""

    #: AP, AP50, AP75, APsmall, APmedium, APlarge, AR1, AR10, AR100, ARsmall, ARmedium, ARlarge
    outcomes: dict[str, Outcome]
    #: AP (IoU .50:.95, all areas, 100 shapes) of each class that is true or found anywhere
    by_class: dict[int, Outcome]


@dataclass(frozen=True)
class _Curves:
    """Of C classes, 4 areas, 3 limits of found shapes, 10 thresholds; NaN where undefined."""

    classes: list[int]
    #: [C, 4, 3, 10, 101]
    precision: NDArray[np.float64]
    #: [C, 4, 3, 10]
    recall: NDArray[np.float64]


def average_precision(truths: Sequence[Truth], found: Sequence[Found]) -> Detection:
    """COCO's numbers, 0 to 1, over images: `found[i]` is judged by `truths[i]`.

    A class without true shapes (crowds do not count) has no value and is left out of the means, as
    COCO does: what was found of it costs nothing. Raises ShapesDiffer, Unusable for negative
    sides, or NotANumber naming the image.
    """
    require_same_length("images true against found", len(truths), len(found))
    images = list(zip(truths, found, strict=True))
    for at, (truth, seen) in enumerate(images):
        _require_usable(at, truth, seen)
    curves = _curves(images)
    true = sum(int((~truth.crowd).sum()) for truth in truths)
    outcomes = {name: _outcome(name, value, true) for name, value in _numbers(curves)}
    by_class = {}
    for row, label in enumerate(curves.classes):
        n = sum(int(((truth.classes == label) & ~truth.crowd).sum()) for truth in truths)
        by_class[label] = _outcome(f"AP of class {label}", curves.precision[row, 0, -1], n)
    return Detection(outcomes, by_class)


def _require_usable(at: int, truth: Truth, found: Found) -> None:
    shapes = truth.shapes, found.shapes
    boxes = [values for values in shapes if isinstance(values, np.ndarray)]
    if not all(np.isfinite(values).all() for values in (truth.areas, found.scores, *boxes)):
        raise NotANumber(at)
    for values in boxes:
        sides = values[:, 2:]
        if (sides < 0).any():
            raise Unusable(f"a side of a box in image {at}", float(sides.min()), "0 or more")


def _curves(images: Sequence[tuple[Truth, Found]]) -> _Curves:
    classes = sorted(
        {int(one) for truth, seen in images for one in truth.classes}
        | {int(one) for truth, seen in images for one in seen.classes}
    )
    shape = len(classes), len(AREAS), len(MOST_FOUND), len(THRESHOLDS)
    precision, recall = np.full((*shape, len(RECALLS)), np.nan), np.full(shape, np.nan)
    for row, label in enumerate(classes):
        judged = [
            judge(truth, seen, label, list(AREAS.values()), THRESHOLDS, MOST_FOUND[-1])
            for truth, seen in images
            if (truth.classes == label).any() or (seen.classes == label).any()
        ]
        for column in range(len(AREAS)):
            for rank, most in enumerate(MOST_FOUND):
                place = row, column, rank
                precision[place], recall[place] = _curve(judged, column, most)
    return _Curves(classes, precision, recall)


def _curve(
    judged: Sequence[Judged], area: int, most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Precision [10, 101] and final recall [10] of one class; NaN where nothing counts."""
    positives = sum(int(one.positives[area]) for one in judged)
    precision = np.full((len(THRESHOLDS), len(RECALLS)), np.nan)
    if positives == 0:
        return precision, np.full(len(THRESHOLDS), np.nan)
    order = np.argsort(-np.concatenate([one.scores[:most] for one in judged]), kind="stable")
    matched = np.concatenate([one.matched[area, :, :most] for one in judged], axis=1)[:, order]
    ignored = np.concatenate([one.ignored[area, :, :most] for one in judged], axis=1)[:, order]
    hits = np.cumsum(matched & ~ignored, axis=1)
    alarms = np.cumsum(~matched & ~ignored, axis=1)
    reached = hits / positives
    right = hits / (hits + alarms + np.spacing(1))
    # Precision never falls with less recall: each point takes the best to its right.
    right = np.maximum.accumulate(right[:, ::-1], axis=1)[:, ::-1]
    for row in range(len(THRESHOLDS)):
        at = np.searchsorted(reached[row], RECALLS, side="left")
        precision[row] = np.append(right[row], 0.0)[at]
    final = reached[:, -1] if order.size else np.zeros(len(THRESHOLDS))
    return precision, final


def _numbers(curves: _Curves) -> Iterable[tuple[str, NDArray[np.float64]]]:
    """Names of the twelve numbers and what each is the mean of."""
    precision, recall = curves.precision, curves.recall
    yield "AP", precision[:, 0, -1]
    yield "AP50", precision[:, 0, -1, 0]
    yield "AP75", precision[:, 0, -1, 5]
    for column, area in enumerate(AREAS):
        if column:
            yield f"AP{area}", precision[:, column, -1]
    for rank, most in enumerate(MOST_FOUND):
        yield f"AR{most}", recall[:, 0, rank]
    for column, area in enumerate(AREAS):
        if column:
            yield f"AR{area}", recall[:, column, -1]


def _outcome(name: str, values: NDArray[np.float64], n: int) -> Outcome:
    """Mean of the values that are defined; `n` counts true shapes of any area."""
    defined = values[~np.isnan(values)]
    value = float(defined.mean()) if defined.size else None
    caveats = (NO_INTERVAL,) if defined.size else ("no true shape to judge by",)
    return Outcome(name, value, n, None, METHOD, caveats)
