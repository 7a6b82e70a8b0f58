"""Whether two evaluations of the same samples still answer the same.

Predictions come by sample name. A sample that only one evaluation has is excluded and counted; a
prediction with NaN or infinity is an error that names its sample, never a number.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from mlscope.accuracy import divergence
from mlscope.accuracy.divergence import Vector
from mlscope.accuracy.errors import NotANumber, NotProbabilities, ShapesDiffer, Unusable
from mlscope.accuracy.outcome import Outcome, mean, share
from mlscope.accuracy.sparse import TopK, least_divergence, least_max_difference

#: how far from 1 a sum of probabilities may be (half precision), before it is divided by its sum
SUM_TOLERANCE = 1e-2
AGREEMENT, LARGEST, AVERAGE = "top-1 agreement", "max difference", "mean difference"
LIKE = "correlation", "covariance"
DIVERGENCES: Mapping[str, Callable[[Vector, Vector], float]] = {
    "KL": divergence.kullback_leibler,
    "JS": divergence.jensen_shannon,
    "Hellinger": divergence.hellinger,
    "Bhattacharyya": divergence.bhattacharyya,
}
METHODS = {
    "KL": "nats, of the second from the first",
    "JS": "nats, 0 to ln 2",
    "Hellinger": "distance, 0 to 1",
    "Bhattacharyya": "nats",
    "correlation": "Pearson over elements",
    "covariance": "over elements, n - 1",
    AVERAGE: "absolute, over elements",
}
BOUND = "lower bound: the lists leave classes out"
EVERY_CLASS = "needs every class, not the best ones alone"


@dataclass(frozen=True)
class Comparison:
    """What two evaluations differ by: over all samples, and sample by sample."""

    #: by measure, means over samples but for the largest difference and the agreement
    outcomes: dict[str, Outcome]
    #: by sample, then measure; None where undefined, infinite where so
    by_sample: dict[str, dict[str, float | None]]


def compare_outputs(first: Mapping[str, ArrayLike], second: Mapping[str, ArrayLike]) -> Comparison:
    """Compare arrays of any unit (logits, boxes, images): a sample's two have one shape.

    Correlation, covariance, largest and mean absolute difference over a sample's elements; top-1
    agreement (argmax, ties to the lower class) where every output is a vector. Raises NotANumber
    or ShapesDiffer naming the sample.
    """
    found: dict[str, dict[str, float | None]] = {}
    for name in _common(first, second):
        one, other = _arrays(name, first[name], second[name])
        found[name] = _differences(one.ravel(), other.ravel())
        if one.ndim == 1:
            found[name][AGREEMENT] = float(one.argmax() == other.argmax())
    measures = [*LIKE, LARGEST, AVERAGE]
    if all(AGREEMENT in values for values in found.values()):
        measures.append(AGREEMENT)
    return _comparison(found, measures, _unpaired(first, second))


def compare_probabilities(
    first: Mapping[str, ArrayLike], second: Mapping[str, ArrayLike]
) -> Comparison:
    """Compare probability vectors: all of `compare_outputs`, and the four divergences.

    Sums may be off 1 by 0.01 and are divided by themselves; beyond, or negative, NotProbabilities.
    Infinite divergences (a class that only one gives 0) are counted and left out of the mean.
    """
    found: dict[str, dict[str, float | None]] = {}
    for name in _common(first, second):
        one, other = (
            _probabilities(name, array) for array in _arrays(name, first[name], second[name])
        )
        values: dict[str, float | None] = {
            measure: formula(one, other) for measure, formula in DIVERGENCES.items()
        }
        values |= _differences(one, other)
        found[name] = values | {AGREEMENT: float(one.argmax() == other.argmax())}
    measures = [*DIVERGENCES, *LIKE, LARGEST, AVERAGE, AGREEMENT]
    return _comparison(found, measures, _unpaired(first, second))


def compare_top_k(
    first: Mapping[str, Mapping[int, float]], second: Mapping[str, Mapping[int, float]]
) -> Comparison:
    """Compare lists of the best classes with their probabilities; lengths may differ.

    Divergences and the largest difference are lower bounds (`mlscope.accuracy.sparse` says how
    the missing mass is treated); correlation, covariance and mean difference have no value.
    "listed mass" is the mean of the smaller of both sums: near 1 the bounds are tight.
    """
    found: dict[str, dict[str, float | None]] = {}
    for name in _common(first, second):
        one, other = _top_k(name, first[name]), _top_k(name, second[name])
        found[name] = {
            measure: least_divergence(one, other, formula)
            for measure, formula in DIVERGENCES.items()
        }
        found[name][LARGEST] = least_max_difference(one, other)
        found[name]["listed mass"] = min(one.mass, other.mass)
        found[name][AGREEMENT] = float(one.best == other.best)
    measures = [*DIVERGENCES, LARGEST, "listed mass", AGREEMENT]
    compared = _comparison(found, measures, _unpaired(first, second))
    outcomes = dict(compared.outcomes)
    for measure in (*DIVERGENCES, LARGEST):
        outcomes[measure] = outcomes[measure].warning(BOUND)
    for measure in (*LIKE, AVERAGE):
        outcomes[measure] = Outcome(measure, None, 0, None, METHODS[measure], (EVERY_CLASS,))
    return Comparison(outcomes, compared.by_sample)


def compare_best(first: Mapping[str, int], second: Mapping[str, int], why: str) -> Comparison:
    """Compare only the best class of each sample; `why` there is no more becomes a caveat."""
    found: dict[str, dict[str, float | None]] = {
        name: {AGREEMENT: float(first[name] == second[name])} for name in _common(first, second)
    }
    compared = _comparison(found, [AGREEMENT], _unpaired(first, second))
    outcome = compared.outcomes[AGREEMENT].warning(f"top-1 only: {why}")
    return Comparison({AGREEMENT: outcome}, found)


def compared_by(
    found: Mapping[str, dict[str, float | None]],
    first: Mapping[str, object],
    second: Mapping[str, object],
    methods: Mapping[str, str],
) -> Comparison:
    """Put measures of samples together; `methods` names them, and the agreement is the last."""
    ordered = {name: found[name] for name in first if name in found}
    compared = _comparison(ordered, [*methods, AGREEMENT], _unpaired(first, second))
    outcomes = {
        name: replace(outcome, method=f"{methods[name]}, mean of samples")
        if name in methods
        else outcome
        for name, outcome in compared.outcomes.items()
    }
    return Comparison(outcomes, ordered)


def _common(first: Mapping[str, object], second: Mapping[str, object]) -> list[str]:
    return [name for name in first if name in second]


def _unpaired(first: Mapping[str, object], second: Mapping[str, object]) -> int:
    return len(first.keys() ^ second.keys())


def _arrays(name: str, first: ArrayLike, second: ArrayLike) -> tuple[Vector, Vector]:
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.shape != other.shape or one.size == 0:
        raise ShapesDiffer(f"outputs of sample {name}", one.shape, other.shape)
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise NotANumber(name)
    return one, other


def _probabilities(name: str, values: Vector) -> Vector:
    if values.ndim != 1:
        raise ShapesDiffer(f"probabilities [classes] of sample {name}", values.shape, 1)
    _require_probabilities(name, values, 1.0 - SUM_TOLERANCE)
    return np.asarray(values / values.sum(), np.float64)


def _top_k(name: str, listed: Mapping[int, float]) -> TopK:
    values = np.array(list(listed.values()), np.float64)
    if values.size == 0:
        raise Unusable(f"classes listed for sample {name}", 0, "1 or more")
    if not np.isfinite(values).all():
        raise NotANumber(name)
    _require_probabilities(name, values, 0.0)
    scale = max(1.0, float(values.sum()))
    return TopK({label: value / scale for label, value in listed.items()})


def _require_probabilities(name: str, values: Vector, least_sum: float) -> None:
    least, total = float(values.min()), float(values.sum())
    if least < 0 or not least_sum <= total <= 1.0 + SUM_TOLERANCE:
        raise NotProbabilities(name, least, total)


def _differences(one: Vector, other: Vector) -> dict[str, float | None]:
    return {
        "correlation": divergence.correlation(one, other),
        "covariance": divergence.covariance(one, other),
        LARGEST: divergence.max_difference(one, other),
        AVERAGE: divergence.mean_difference(one, other),
    }


def _comparison(
    found: dict[str, dict[str, float | None]], measures: list[str], unpaired: int
) -> Comparison:
    outcomes = {}
    for measure in measures:
        column = [values[measure] for values in found.values()]
        outcome = _outcome(measure, column, unpaired)
        if unpaired:
            outcome = outcome.warning(f"{unpaired} samples are in one evaluation only")
        outcomes[measure] = outcome
    return Comparison(outcomes, found)


def _outcome(measure: str, column: list[float | None], unpaired: int) -> Outcome:
    kept = [value for value in column if value is not None and math.isfinite(value)]
    left_out = len(column) - len(kept)
    if measure == AGREEMENT:
        return share(
            measure, int(sum(kept)), len(kept), "ties to the lower class", excluded=unpaired
        )
    if measure == LARGEST:
        value = max(kept, default=None)
        return Outcome(measure, value, len(kept), None, "largest of all samples", (), unpaired)
    caveats = (f"{left_out} samples infinite or undefined, not in the mean",) if left_out else ()
    method = f"{METHODS.get(measure, 'share')}, mean of samples"
    return mean(measure, kept, method, caveats=caveats, excluded=unpaired + left_out)
