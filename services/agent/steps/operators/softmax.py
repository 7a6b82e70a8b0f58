"""softmax: scores to probabilities."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters
from services.agent.steps.scores import float_type

Scores = npt.NDArray[Any]


def softmax(parameters: Parameters) -> Callable[[Scores], Scores]:  # noqa: ARG001
    """Return (batch, classes) -> float of the same shape, each row adding up to 1.

    exp(x - max) / sum(exp(x - max)) along the last axis, which cannot overflow. It is computed in
    float64; whole numbers become float64.
    """

    def apply(scores: Scores) -> Scores:
        raised = scores.astype(np.float64)
        raised -= raised.max(axis=-1, keepdims=True)
        np.exp(raised, out=raised)
        raised /= raised.sum(axis=-1, keepdims=True)
        cast: Scores = raised.astype(float_type(scores.dtype), copy=False)
        return cast

    return apply
