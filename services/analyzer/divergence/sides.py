"""The two sides of a comparison: answers by output and sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.analyzer.predictions import Feature, Prediction

Answers = Mapping[str, list[Feature]]
"""The features of one output, by sample."""

SUM_IS_ONE = 1e-3
"""How far from 1 the probabilities of a complete list may add up."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of two evaluations: its answers by sample, of one run."""

    evaluation: str
    run: str
    predictions: Mapping[int, Prediction]

    @property
    def name(self) -> str:
        """How it is called in a sentence."""
        return f"{self.evaluation}/{self.run}"


def by_output(side: Side) -> dict[str, dict[str, list[Feature]]]:
    """Return the features of each output by sample; of a single output its name is ''."""
    every = [feature for each in side.predictions.values() for feature in each.features]
    names = dict.fromkeys(str(feature.get("output", "")) for feature in every)
    # A detector that finds nothing says nothing of its output: its list is empty, not absent.
    found: dict[str, dict[str, list[Feature]]] = {
        name: {str(sample): [] for sample in side.predictions} for name in names or ("",)
    }
    for sample, prediction in side.predictions.items():
        for feature in prediction.features:
            found[str(feature.get("output", ""))][str(sample)].append(feature)
    return found


def where(output: str) -> str:
    """Return the beginning of a sentence about an output; of a single one nothing."""
    return f"output {output}: " if output else ""


def listed_values(features: Sequence[Feature]) -> dict[int, float]:
    """Return class to value; where a class has only a name, its place by name is none of ours."""
    return {int(each["index"]): float(each["probability"]) for each in features}
