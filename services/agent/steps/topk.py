"""topk: the likeliest classes with their labels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import ClassNames, Parameters

Feature = dict[str, Any]
Scores = npt.NDArray[np.number | np.bool_]


def topk(parameters: Parameters) -> Callable[[Scores], list[list[Feature]]]:
    """Return (batch, classes) -> for each sample its `k` best features, best first.

    A feature is `{"type": "classification", "index", "label", "probability"}`; `labels` (or the
    papers' `labels_url`) names the label file, one class a line, neither more nor less.
    Ties go to the lower index. Whole numbers, as quantized models give, are ranked as they are.
    """
    count = parameters.whole("k", default=5)
    labels = parameters.class_names(("labels", "labels_url"))

    def apply(probabilities: Scores) -> list[list[Feature]]:
        rows = probabilities.reshape(len(probabilities), -1)
        labels.require(rows.shape[1])
        return [_best(row, count, labels) for row in rows]

    return apply


def _best(row: Scores, count: int, labels: ClassNames) -> list[Feature]:
    # Of whole numbers the negative may wrap around.
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
