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
        indices = best_indices(rows, count)
        values = np.take_along_axis(rows, indices, axis=1).astype(np.float64)
        return [
            features_of(*sample) for sample in zip(indices.tolist(), values.tolist(), strict=True)
        ]

    def features_of(indices: list[int], values: list[float]) -> list[Feature]:
        return [
            {
                "type": "classification",
                "index": index,
                "label": labels.of(index),
                "probability": value,
            }
            for index, value in zip(indices, values, strict=True)
        ]

    return apply


def best_indices(rows: Scores, count: int) -> npt.NDArray[np.intp]:
    """Return the indices of the `count` highest scores of each row, the highest first.

    Of equal scores the lower index is first; NaN is last. Equal to a stable sort of the negated
    row, which takes ten times as long for a thousand classes.
    """
    # The negative of a whole number could overflow.
    keys = np.negative(rows if rows.dtype == np.float32 else rows.astype(np.float64))
    if count >= keys.shape[1]:
        return np.argsort(keys, axis=1, kind="stable")
    chosen = np.argpartition(keys, count - 1, axis=1)[:, :count]
    chosen.sort(axis=1)
    chosen_keys = np.take_along_axis(keys, chosen, axis=1)
    order = np.argsort(chosen_keys, axis=1, kind="stable")
    indices = np.take_along_axis(chosen, order, axis=1)
    # Where an equal score was left out, or NaN was chosen, the choice may be another one.
    last = chosen_keys.max(axis=1, keepdims=True)
    is_open = np.count_nonzero(keys <= last, axis=1) != count
    indices[is_open] = np.argsort(keys[is_open], axis=1, kind="stable")[:, :count]
    return indices
