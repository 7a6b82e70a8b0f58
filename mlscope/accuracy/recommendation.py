"""Area under the ROC curve, for click-through and other yes-or-no predictions."""

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
    """Chance that a sample labelled 1 scores above one labelled 0, ties counting half.

    Equals the area under the ROC curve (Hanley and McNeil 1982). The interval is normal with the
    variance of DeLong et al. 1988, computed by ranks (Sun and Xu 2014) and cut off at 0 and 1. It
    has no width where the classes are wholly apart, which a caveat says. Unlabelled samples (None)
    are excluded; of a single class there is no value. Raises NotANumber and UnknownLabel.
    """
    values = np.asarray(scores, np.float64).reshape(-1)
    require_same_length("scores against labels", len(values), len(labels))
    if np.isnan(values).any():
        raise NotANumber(int(np.argmax(np.isnan(values))))
    for sample, label in enumerate(labels):
        if label not in (None, 0, 1):
            raise UnknownLabel(sample, int(label), 2)
    shown = values[[label == 1 for label in labels]]
    hidden = values[[label == 0 for label in labels]]
    n, excluded = shown.size + hidden.size, len(labels) - shown.size - hidden.size
    if shown.size == 0 or hidden.size == 0:
        return Outcome("AUC", None, n, None, METHOD, ("only one class is labelled",), excluded)
    area, error = _delong(shown, hidden)
    reach = normal_quantile((1.0 + confidence) / 2.0) * error if error is not None else math.nan
    if error is None:
        few = ("too few samples of a class for an interval",)
        return Outcome("AUC", area, n, None, METHOD, few, excluded)
    interval = Interval(max(0.0, area - reach), min(1.0, area + reach), confidence, "DeLong")
    apart = ("the interval has no width: it knows no doubt here",) if error == 0.0 else ()
    return Outcome("AUC", area, n, interval, METHOD, apart, excluded)


def _delong(shown: NDArray[np.float64], hidden: NDArray[np.float64]) -> tuple[float, float | None]:
    """Area and its standard error, None with fewer than 2 of a class."""
    m, n = shown.size, hidden.size
    among_all = _mid_ranks(np.concatenate([shown, hidden]))
    above = (among_all[:m] - _mid_ranks(shown)) / n
    below = 1.0 - (among_all[m:] - _mid_ranks(hidden)) / m
    area = float(above.mean())
    if min(m, n) < 2:
        return area, None
    return area, math.sqrt(above.var(ddof=1) / m + below.var(ddof=1) / n)


def _mid_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of theirs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks: NDArray[np.float64] = (last - (count - 1) / 2.0)[place]
    return ranks
