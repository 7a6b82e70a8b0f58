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
        raised = scores.astype(np.float64)
        is_positive = raised >= 0
        np.abs(raised, out=raised)
        np.negative(raised, out=raised)
        np.exp(raised, out=raised)
        probabilities = np.where(is_positive, 1.0, raised)
        raised += 1.0
        probabilities /= raised
        return probabilities.astype(float_type(scores.dtype), copy=False)

    return apply
