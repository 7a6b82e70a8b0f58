"""The numbers that classes were chosen from, where both sides kept them."""

from base64 import b64decode
from collections.abc import Collection
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
from services.analyzer.divergence.sides import SUM_IS_ONE, Side, listed_values, where
from services.analyzer.errors import NotAlike
from services.analyzer.predictions import Prediction

_OF_NUMBERS = "before the steps"


def whole_numbers(output: str, first: Side, second: Side) -> Comparison | None:
    """Compare the numbers that classes were chosen from; None where one side lacks some."""
    both = first.predictions.keys() & second.predictions.keys()
    sides = [_vectors(output, side, both) for side in (first, second)]
    ones, others = sides
    if min(len(ones), len(others)) < len(both):
        return None
    if any(ones[name].shape != others[name].shape for name in ones):
        return None
    try:
        raw = compare_outputs(ones, others)
        probabilities = [
            {name: _distribution(v, side.predictions[int(name)]) for name, v in vectors.items()}
            for side, vectors in zip((first, second), sides, strict=True)
        ]
        if any(each is None for side in probabilities for each in side.values()):
            return raw
        told = compare_probabilities(*probabilities)
    except AccuracyError as error:
        raise NotAlike("answers", f"{where(output)}{error}") from error
    return _joined(told, raw)


def _vectors(output: str, side: Side, samples: Collection[int]) -> dict[str, Any]:
    """Return the numbers of each sample that has some."""
    found = {}
    for sample in sorted(samples):
        text_ = side.predictions[sample].raw.get(output)
        if text_:
            found[str(sample)] = np.frombuffer(b64decode(text_), "<f4").astype(np.float64)
    return found


def _distribution(values: Any, prediction: Prediction) -> Any:
    """Return probabilities of all classes, given those that were listed; None where that fails.

    They are the numbers themselves, or their softmax: whichever has the listed ones.
    """
    listed = listed_values(prediction.features)
    raised = np.exp(values - values.max())
    for found in (values, raised / raised.sum()):
        is_one = found.min() >= 0.0 and abs(found.sum() - 1.0) <= SUM_IS_ONE
        if is_one and all(
            place < found.size and abs(found[place] - listed[place]) <= SUM_IS_ONE
            for place in listed
        ):
            return found
    return None


def _joined(told: Comparison, raw: Comparison) -> Comparison:
    """Put what is said of probabilities and of the numbers before them together."""
    outcomes = dict(told.outcomes)
    names = {name: f"{name} {_OF_NUMBERS}" for name in raw.outcomes if name != AGREEMENT}
    for name, longer in names.items():
        outcomes[longer] = replace(raw.outcomes[name], name=longer)
    by_sample = {
        sample: told.by_sample[sample] | {names[n]: v for n, v in values.items() if n in names}
        for sample, values in raw.by_sample.items()
    }
    return Comparison(outcomes, by_sample)
