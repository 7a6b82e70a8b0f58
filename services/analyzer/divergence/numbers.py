"""Raw numbers that classes were chosen from, where both sides stored them."""

from dataclasses import replace
from typing import Any

import numpy as np

from mlscope.accuracy import (
    AccuracyError,
    Comparison,
    compare_outputs,
    compare_probabilities,
)
from mlscope.accuracy.comparison import AGREEMENT
from services.analyzer.divergence.sides import SUM_IS_ONE, Side, listed_values, output_prefix
from services.analyzer.errors import NotAlike
from services.analyzer.frames.predictions import Prediction

_RAW_SUFFIX = "before the steps"


def compare_raw_numbers(output: str, first: Side, second: Side) -> Comparison | None:
    """Compare the numbers that the classes of an `output` were chosen from.

    `first` and `second` are compared by their numbers as they are and, where both list
    probabilities, as complete distributions. Returns None where one side lacks numbers of an
    answer, or where their shapes differ. Raises NotAlike.
    """
    both = sorted(first.predictions.keys() & second.predictions.keys())
    first_numbers = first.raw_numbers(output, both)
    second_numbers = second.raw_numbers(output, both)
    if first_numbers is None or second_numbers is None:
        return None
    if any(first_numbers[name].shape != second_numbers[name].shape for name in first_numbers):
        return None
    try:
        raw = compare_outputs(first_numbers, second_numbers)
        probabilities = [
            {name: distribution(v, side.predictions[int(name)]) for name, v in by_sample.items()}
            for side, by_sample in ((first, first_numbers), (second, second_numbers))
        ]
        if any(values is None for side in probabilities for values in side.values()):
            return raw
        compared = compare_probabilities(*probabilities)
    except AccuracyError as error:
        raise NotAlike("answers", f"{output_prefix(output)}{error}") from error
    names = {name: f"{name} {_RAW_SUFFIX}" for name in raw.outcomes if name != AGREEMENT}
    outcomes = {n: replace(raw.outcomes[name], name=n) for name, n in names.items()}
    by_sample_of_both = {
        sample: compared.by_sample[sample]
        | {names[name]: value for name, value in values.items() if name in names}
        for sample, values in raw.by_sample.items()
    }
    return Comparison({**compared.outcomes, **outcomes}, by_sample_of_both)


def distribution(values: Any, prediction: Prediction) -> Any:
    """Return the probabilities (shape [classes]) that a `prediction` lists some of.

    They are the raw `values` themselves or their softmax, whichever contains the listed
    probabilities; None where neither does.
    """
    listed = listed_values(prediction.features)
    raised = np.exp(values - values.max())
    for candidate in (values, raised / raised.sum()):
        is_one = candidate.min() >= 0.0 and abs(candidate.sum() - 1.0) <= SUM_IS_ONE
        if is_one and all(
            place < candidate.size and abs(candidate[place] - listed[place]) <= SUM_IS_ONE
            for place in listed
        ):
            return candidate
    return None
