"""sigmoid: scores to probabilities, each by itself."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters

Scores = npt.NDArray[np.floating]


def sigmoid(parameters: Parameters) -> Callable[[Scores], Scores]:  # noqa: ARG001
    """Return (batch, …) -> float of the same shape, each 0 to 1: 1 / (1 + exp(-x)).

    Computed of -|x|, which can't overflow; within 1e-6 of the formula in float64.
    """

    def apply(scores: Scores) -> Scores:
        raised = np.exp(-np.abs(scores))
        probabilities: Scores = np.where(scores >= 0, 1.0, raised) / (1.0 + raised)
        return probabilities.astype(scores.dtype)

    return apply
