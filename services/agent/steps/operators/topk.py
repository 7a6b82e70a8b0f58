"""topk: the likeliest classes with their labels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters

Feature = dict[str, Any]
Scores = npt.NDArray[np.number | np.bool_]


def topk(parameters: Parameters) -> Callable[[Scores], list[list[Feature]]]:
    """Return (batch, classes) -> for each sample its `k` best features, best first.

    A feature is `{"type": "classification", "index", "label", "probability"}`. `labels` (or
    MLModelScope's `labels_url`) names the label file, with exactly one line for each class. Of
    equal scores the lower index is better. Whole numbers, which quantized models return, are ranked
    as they are.
    """
    count = parameters.integer("k", default=5)
    labels = parameters.class_names(("labels", "labels_url"))

    def apply(probabilities: Scores) -> list[list[Feature]]:
        rows = probabilities.reshape(len(probabilities), -1)
        labels.require(rows.shape[1])
        return [best(row) for row in rows]

    def best(row: Scores) -> list[Feature]:
        # The negative of a whole number could overflow.
        order = np.argsort(-row.astype(np.float64), kind="stable")[:count]
        return [
            {
                "type": "classification",
                "index": int(index),
                "label": labels.of(int(index)),
                "probability": float(row[index]),
            }
            for index in order
        ]

    return apply
