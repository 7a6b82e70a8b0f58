"""Area under the ROC curve, for click-through and other yes-or-no predictions. Pure."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.accuracy.errors import NotANumber, UnknownLabel
from mlscope.accuracy.outcome import Outcome, require_same_length
from mlscope.statistics import Interval
from mlscope.statistics.distributions import normal_quantile

METHOD = "Mann-Whitney, ties count half; interval: DeLong"


def auc(scores: ArrayLike, labels: Sequence[int | None], confidence: float = 0.95) -> Outcome:
    """Return the probability that a sample labelled 1 scores above one labelled 0, ties half.

    It equals the area under the ROC curve, 0 to 1 (Hanley and McNeil 1982). `scores` and `labels`
    (1, 0 or None) have one value a sample. The interval, at `confidence`, is normal with the
    variance of DeLong et al. 1988, computed by ranks (Sun and Xu 2014) and cut off at 0 and 1; its
    width is 0 where the scores separate the classes, which a caveat says. Unlabelled samples (None)
    are excluded; with a single class there is no value. Raises NotANumber, UnknownLabel,
    ShapesDiffer.
    """
    values = np.asarray(scores, np.float64).reshape(-1)
    require_same_length("scores against labels", len(values), len(labels))
    if np.isnan(values).any():
        raise NotANumber(int(np.argmax(np.isnan(values))))
    for sample, label in enumerate(labels):
        if label not in (None, 0, 1):
            raise UnknownLabel(sample, int(label), 2)
    kinds = np.asarray(labels, object)
    positives, negatives = values[kinds == 1], values[kinds == 0]
    n = positives.size + negatives.size
    excluded = len(labels) - n
    if positives.size == 0 or negatives.size == 0:
        return Outcome("AUC", None, n, None, METHOD, ("only one class is labelled",), excluded)
    area, standard_error = area_and_error(positives, negatives)
    if standard_error is None:
        too_few = ("too few samples of a class for an interval",)
        return Outcome("AUC", area, n, None, METHOD, too_few, excluded)
    half_width = normal_quantile((1.0 + confidence) / 2.0) * standard_error
    low, high = max(0.0, area - half_width), min(1.0, area + half_width)
    zero_width = "the interval has no width: the scores separate the classes"
    caveats = (zero_width,) if standard_error == 0.0 else ()
    interval = Interval(low, high, confidence, "DeLong")
    return Outcome("AUC", area, n, interval, METHOD, caveats, excluded)


def area_and_error(
    positives: NDArray[np.float64], negatives: NDArray[np.float64]
) -> tuple[float, float | None]:
    """Return the area under the ROC curve of two classes' scores and its standard error.

    By ranks (DeLong et al. 1988; Sun and Xu 2014); no error with fewer than 2 scores of a class.
    """
    m, n = positives.size, negatives.size
    ranks = _mid_ranks(np.concatenate([positives, negatives]))
    above = (ranks[:m] - _mid_ranks(positives)) / n
    below = 1.0 - (ranks[m:] - _mid_ranks(negatives)) / m
    area = float(above.mean())
    if min(m, n) < 2:
        return area, None
    return area, math.sqrt(above.var(ddof=1) / m + below.var(ddof=1) / n)


def _mid_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks from 1; equal values have the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2.0)[inverse]
    return ranks
