"""The two sides of a comparison: answers by output and sample."""

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.analyzer.errors import NotAlike
from services.analyzer.frames.predictions import Feature, Prediction

Vector = npt.NDArray[np.float64]
Answers = Mapping[str, list[Feature]]
"""The features of one output, by sample."""

SUM_IS_ONE = 1e-3
"""How far the sum of a complete list of probabilities may be from 1."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of two evaluations: the answers of one run by sample."""

    evaluation: str
    run: str
    predictions: Mapping[int, Prediction]

    @property
    def name(self) -> str:
        """Its name in a sentence."""
        return f"{self.evaluation}/{self.run}"

    def require_answers(self) -> None:
        """Raise NotAlike where it has no answer."""
        if not self.predictions:
            raise NotAlike("predictions", f"{self.name} stored no answer")

    def raw_numbers(self, output: str, samples: Iterable[int]) -> dict[str, Vector] | None:
        """Return the stored numbers (shape [classes]) of an `output` by sample.

        They are those that the classes of the `samples` were chosen from; None where one lacks
        them.
        """
        numbers: dict[str, Vector] = {}
        for sample in samples:
            encoded = self.predictions[sample].raw.get(output)
            if not encoded:
                return None
            numbers[str(sample)] = np.frombuffer(b64decode(encoded), "<f4").astype(np.float64)
        return numbers


def features_by_output(side: Side) -> dict[str, dict[str, list[Feature]]]:
    """Return the features of each output by sample; a single output has the name ''."""
    outputs = dict.fromkeys(
        str(feature.get("output", ""))
        for prediction in side.predictions.values()
        for feature in prediction.features
    )
    # A detector that finds nothing names no output: its list is empty, not absent.
    features: dict[str, dict[str, list[Feature]]] = {
        name: {str(sample): [] for sample in side.predictions} for name in outputs or ("",)
    }
    for sample, prediction in side.predictions.items():
        for feature in prediction.features:
            features[str(feature.get("output", ""))][str(sample)].append(feature)
    return features


def output_prefix(output: str) -> str:
    """Return the start of a sentence about an output; '' for a single output."""
    return f"output {output}: " if output else ""


def listed_values(features: Sequence[Feature]) -> dict[int, float]:
    """Return the probability of each class number that a list of classes names."""
    return {int(feature["index"]): float(feature["probability"]) for feature in features}
