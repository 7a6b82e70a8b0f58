"""How far the predictions of two evaluations of the same samples differ. Pure.

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

#: how far from 1 a sum of probabilities may be (half precision); then they are divided by it
SUM_TOLERANCE = 1e-2
AGREEMENT, LARGEST, AVERAGE = "top-1 agreement", "max difference", "mean difference"
LIKENESS = "correlation", "covariance"
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
BOUND = "lower bound: the lists leave out classes"
EVERY_CLASS = "needs the probability of every class, not only of the best"


@dataclass(frozen=True)
class Comparison:
    """How far two evaluations differ, over all samples and sample by sample."""

    #: by measure: means over samples, except the largest difference and the agreement
    outcomes: dict[str, Outcome]
    #: by sample, then measure; None where undefined
    by_sample: dict[str, dict[str, float | None]]


def compare_outputs(first: Mapping[str, ArrayLike], second: Mapping[str, ArrayLike]) -> Comparison:
    """Compare arrays of any unit (logits, boxes, images); the two of a sample have one shape.

    Measures: correlation, covariance, largest and mean absolute difference over a sample's
    elements; top-1 agreement (argmax, ties to the lower class) where every output is a vector.
    Raises NotANumber or ShapesDiffer, naming the sample.
    """
    by_sample: dict[str, dict[str, float | None]] = {}
    for name in _common(first, second):
        first_values, second_values = _arrays(name, first[name], second[name])
        by_sample[name] = _differences(first_values.ravel(), second_values.ravel())
        if first_values.ndim == 1:
            by_sample[name][AGREEMENT] = float(first_values.argmax() == second_values.argmax())
    measures = [*LIKENESS, LARGEST, AVERAGE]
    if all(AGREEMENT in values for values in by_sample.values()):
        measures.append(AGREEMENT)
    return _comparison(by_sample, measures, _unpaired(first, second))


def compare_probabilities(
    first: Mapping[str, ArrayLike], second: Mapping[str, ArrayLike]
) -> Comparison:
    """Compare probability vectors [classes] by sample: `compare_outputs` and four divergences.

    A sum may be off 1 by 0.01; the vector is divided by it. Infinite divergences (of a class that
    one side alone gives 0) are counted and left out of the mean. Raises NotProbabilities for
    other sums and negative values, NotANumber or ShapesDiffer, naming the sample.
    """
    by_sample: dict[str, dict[str, float | None]] = {}
    for name in _common(first, second):
        pair = _arrays(name, first[name], second[name])
        if pair[0].ndim != 1:
            raise ShapesDiffer(f"probabilities [classes] of sample {name}", pair[0].shape, 1)
        for vector in pair:
            _require_probabilities(name, vector, 1.0 - SUM_TOLERANCE)
        first_values, second_values = (vector / vector.sum() for vector in pair)
        values: dict[str, float | None] = {
            measure: formula(first_values, second_values)
            for measure, formula in DIVERGENCES.items()
        }
        values |= _differences(first_values, second_values)
        by_sample[name] = values | {
            AGREEMENT: float(first_values.argmax() == second_values.argmax())
        }
    measures = [*DIVERGENCES, *LIKENESS, LARGEST, AVERAGE, AGREEMENT]
    return _comparison(by_sample, measures, _unpaired(first, second))


def compare_top_k(
    first: Mapping[str, Mapping[int, float]], second: Mapping[str, Mapping[int, float]]
) -> Comparison:
    """Compare, by sample, maps of the best classes to probabilities; lengths may differ.

    Divergences and the largest difference are lower bounds (`mlscope.accuracy.sparse` says how
    the missing mass is treated); correlation, covariance and mean difference have no value.
    "listed mass" is the mean of the smaller of both sums: near 1 the bounds are tight. Raises
    NotProbabilities, NotANumber or Unusable, naming the sample.
    """
    by_sample: dict[str, dict[str, float | None]] = {}
    for name in _common(first, second):
        first_list, second_list = _top_k(name, first[name]), _top_k(name, second[name])
        by_sample[name] = {
            measure: least_divergence(first_list, second_list, formula)
            for measure, formula in DIVERGENCES.items()
        }
        by_sample[name][LARGEST] = least_max_difference(first_list, second_list)
        by_sample[name]["listed mass"] = min(first_list.mass, second_list.mass)
        by_sample[name][AGREEMENT] = float(first_list.best == second_list.best)
    measures = [*DIVERGENCES, LARGEST, "listed mass", AGREEMENT]
    compared = _comparison(by_sample, measures, _unpaired(first, second))
    outcomes = dict(compared.outcomes)
    for measure in (*DIVERGENCES, LARGEST):
        outcomes[measure] = outcomes[measure].warning(BOUND)
    for measure in (*LIKENESS, AVERAGE):
        outcomes[measure] = Outcome(measure, None, 0, None, METHODS[measure], (EVERY_CLASS,))
    return Comparison(outcomes, compared.by_sample)


def compare_best(first: Mapping[str, int], second: Mapping[str, int], reason: str) -> Comparison:
    """Compare the best class of each sample, where the evaluations keep no more than that.

    `first` and `second` have a class a sample; `reason` becomes part of the caveat.
    """
    by_sample: dict[str, dict[str, float | None]] = {
        name: {AGREEMENT: float(first[name] == second[name])} for name in _common(first, second)
    }
    compared = _comparison(by_sample, [AGREEMENT], _unpaired(first, second))
    outcome = compared.outcomes[AGREEMENT].warning(f"top-1 only: {reason}")
    return Comparison({AGREEMENT: outcome}, by_sample)


def compare_by_measures(
    by_sample: Mapping[str, dict[str, float | None]],
    first: Mapping[str, object],
    second: Mapping[str, object],
    methods: Mapping[str, str],
) -> Comparison:
    """Return the comparison of measures by sample.

    `by_sample` has the measures of each sample that both `first` and `second` have: the keys of
    `methods`, which describe them, and the agreement.
    """
    ordered = {name: by_sample[name] for name in first if name in by_sample}
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
    """Return both as finite float64 arrays of one shape. Raises ShapesDiffer, NotANumber."""
    first_array, second_array = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if first_array.shape != second_array.shape or first_array.size == 0:
        raise ShapesDiffer(f"outputs of sample {name}", first_array.shape, second_array.shape)
    if not (np.isfinite(first_array).all() and np.isfinite(second_array).all()):
        raise NotANumber(name)
    return first_array, second_array


def _top_k(name: str, listed: Mapping[int, float]) -> TopK:
    """Return the best classes of a sample; a sum above 1 is scaled to 1."""
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


def _differences(first: Vector, second: Vector) -> dict[str, float | None]:
    return {
        "correlation": divergence.correlation(first, second),
        "covariance": divergence.covariance(first, second),
        LARGEST: divergence.max_difference(first, second),
        AVERAGE: divergence.mean_difference(first, second),
    }


def _comparison(
    by_sample: dict[str, dict[str, float | None]], measures: list[str], unpaired: int
) -> Comparison:
    """Return the comparison of the samples, with a caveat for those in one evaluation only."""
    outcomes = {}
    for measure in measures:
        column = [values[measure] for values in by_sample.values()]
        outcome = _outcome(measure, column, unpaired)
        if unpaired:
            outcome = outcome.warning(f"{unpaired} samples are in one evaluation only")
        outcomes[measure] = outcome
    return Comparison(outcomes, by_sample)


def _outcome(measure: str, column: list[float | None], unpaired: int) -> Outcome:
    """Return a measure's outcome over all samples from its values by sample."""
    finite = [value for value in column if value is not None and math.isfinite(value)]
    left_out = len(column) - len(finite)
    if measure == AGREEMENT:
        return share(
            measure, int(sum(finite)), len(finite), "ties to the lower class", excluded=unpaired
        )
    if measure == LARGEST:
        value = max(finite, default=None)
        return Outcome(measure, value, len(finite), None, "largest of all samples", (), unpaired)
    caveats = (
        (f"{left_out} samples infinite or undefined, left out of the mean",) if left_out else ()
    )
    method = f"{METHODS.get(measure, 'share')}, mean of samples"
    return mean(measure, finite, method, caveats=caveats, excluded=unpaired + left_out)
