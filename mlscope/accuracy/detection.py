"""COCO's average precision and recall, of boxes or of instance masks.

Follows the official evaluation (Lin et al. 2014; pycocotools, cocoeval.py) so that the numbers
agree to rounding: greedy matching by falling score, IoU thresholds .50 to .95 by .05, precision
read at 101 recalls, at most 100 shapes a class and image, crowds and shapes outside the area range
ignored rather than counted. Polygons are not rasterised here: give masks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mlscope.accuracy.errors import NotANumber, Unusable
from mlscope.accuracy.matching import Found, Judged, Truth, judge
from mlscope.accuracy.outcome import Outcome, require_same_length
from mlscope.accuracy.resampling import image_interval

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
TOO_MANY = "no interval: too many shapes to draw their images anew"
#: found shapes times draws, above which no interval is computed
MOST_DRAWN = 40_000_000
_DRAWN = {"AP": slice(None), "AP50": slice(0, 1), "AP75": slice(5, 6)}


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
    #: one a class, over all areas and the most found shapes
    ranked: list["_Ranked"]


@dataclass(frozen=True)
class _Ranked:
    """Found shapes of one class in all images, by falling score; F shapes, J judged images."""

    #: whether a true shape was found, [10, F]
    hits: NDArray[np.bool_]
    #: whether none was, [10, F]
    alarms: NDArray[np.bool_]
    #: whose shape it is: a place in `images`, [F]
    owner: NDArray[np.int64]
    #: numbers of the images judged, [J]
    images: NDArray[np.int64]
    #: true shapes of each that count, [J]
    positives: NDArray[np.int64]


def average_precision(
    truths: Sequence[Truth], found: Sequence[Found], *, draws: int = 0
) -> Detection:
    """COCO's numbers, 0 to 1, over images: `found[i]` is judged by `truths[i]`.

    With `draws`, AP, AP50 and AP75 have an interval: the percentile bootstrap over images, of so
    many draws (none above `MOST_DRAWN` shapes drawn).

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
    if draws:
        outcomes |= _with_intervals(outcomes, curves.ranked, len(images), draws)
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
    ranked = []
    for row, label in enumerate(classes):
        judged = {
            at: judge(truth, seen, label, list(AREAS.values()), THRESHOLDS, MOST_FOUND[-1])
            for at, (truth, seen) in enumerate(images)
            if (truth.classes == label).any() or (seen.classes == label).any()
        }
        for column in range(len(AREAS)):
            for rank, most in enumerate(MOST_FOUND):
                place = row, column, rank
                precision[place], recall[place] = _curve(_rank(judged, column, most))
        ranked.append(_rank(judged, 0, MOST_FOUND[-1]))
    return _Curves(classes, precision, recall, ranked)


def _rank(judged: Mapping[int, Judged], area: int, most: int) -> _Ranked:
    """Put the found shapes of one class in order, whatever their image."""
    ones = list(judged.values())
    positives = np.array([one.positives[area] for one in ones], np.int64)
    order = np.argsort(-np.concatenate([one.scores[:most] for one in ones]), kind="stable")
    matched = np.concatenate([one.matched[area, :, :most] for one in ones], axis=1)[:, order]
    ignored = np.concatenate([one.ignored[area, :, :most] for one in ones], axis=1)[:, order]
    owner = np.repeat(np.arange(len(ones)), [len(one.scores[:most]) for one in ones])[order]
    images = np.array(list(judged), np.int64)
    return _Ranked(matched & ~ignored, ~matched & ~ignored, owner, images, positives)


def _curve(
    ranked: _Ranked, times: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Precision [10, 101] and final recall [10] of one class; NaN where nothing counts.

    Each image counts once, or `times` [J] as often as it was drawn.
    """
    each = np.ones(len(ranked.images), np.int64) if times is None else times
    positives = int((ranked.positives * each).sum())
    precision = np.full((len(THRESHOLDS), len(RECALLS)), np.nan)
    if positives == 0:
        return precision, np.full(len(THRESHOLDS), np.nan)
    weights = each[ranked.owner]
    hits = np.cumsum(ranked.hits * weights, axis=1)
    alarms = np.cumsum(ranked.alarms * weights, axis=1)
    reached = hits / positives
    right = hits / (hits + alarms + np.spacing(1))
    # Precision never falls with less recall: each point takes the best to its right.
    right = np.maximum.accumulate(right[:, ::-1], axis=1)[:, ::-1]
    for row in range(len(THRESHOLDS)):
        at = np.searchsorted(reached[row], RECALLS, side="left")
        precision[row] = np.append(right[row], 0.0)[at]
    final = reached[:, -1] if ranked.owner.size else np.zeros(len(THRESHOLDS))
    return precision, final


def _with_intervals(
    outcomes: Mapping[str, Outcome], ranked: Sequence[_Ranked], images: int, draws: int
) -> dict[str, Outcome]:
    """Return the numbers of `_DRAWN` with their intervals."""
    shapes = sum(one.owner.size for one in ranked)
    if shapes * draws > MOST_DRAWN:
        return {name: replace(outcomes[name], caveats=(TOO_MANY,)) for name in _DRAWN}

    def drawn(times: NDArray[np.int64]) -> list[float]:
        curves = [_curve(one, times[one.images])[0] for one in ranked]
        return [_mean([curve[part] for curve in curves]) for part in _DRAWN.values()]

    intervals = image_interval(drawn, images, draws) or []
    return {
        name: replace(outcomes[name], interval=interval, caveats=())
        for name, interval in zip(_DRAWN, intervals, strict=False)
        if outcomes[name].value is not None
    }


def _mean(curves: Sequence[NDArray[np.float64]]) -> float:
    """Mean of what is defined; NaN where nothing is."""
    values = np.concatenate([curve.ravel() for curve in curves])
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


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
