"""sigmoid: each score to a probability of its own."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters
from services.agent.steps.scores import float_type

Scores = npt.NDArray[Any]


def sigmoid(parameters: Parameters) -> Callable[[Scores], Scores]:  # noqa: ARG001
    """Return (batch, …) -> float of the same shape, each 0 to 1: 1 / (1 + exp(-x)).

    It is computed in float64 from -|x|, which cannot overflow; whole numbers become float64.
    """

    def apply(scores: Scores) -> Scores:
        exact = scores.astype(np.float64)
        raised = np.exp(-np.abs(exact))
        probabilities = np.where(exact >= 0, 1.0, raised) / (1.0 + raised)
        return probabilities.astype(float_type(scores.dtype), copy=False)

    return apply
