"""softmax: scores to probabilities."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters

Scores = npt.NDArray[np.floating]


def softmax(parameters: Parameters) -> Callable[[Scores], Scores]:  # noqa: ARG001
    """Return (batch, classes) -> float of the same shape, each row adding up to 1.

    exp(x - max) / sum(exp(x - max)) along the last axis, which can't overflow.
    """

    def apply(scores: Scores) -> Scores:
        raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
        probabilities: Scores = raised / raised.sum(axis=-1, keepdims=True)
        return probabilities

    return apply
