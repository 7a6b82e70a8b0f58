"""constant: an input that is the same for every sample, such as a rate or an initial state."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters


def constant(parameters: Parameters) -> Callable[[Any], npt.NDArray[np.float64]]:
    """Return anything -> `value`, a number, as float64 of shape ().

    It is the only step of an input that no sample supplies: the input is filled once, in its own
    element type, and has no spans. Its first dimension need not be the batch.
    """
    value = np.float64(parameters.number("value", default=0.0))

    def apply(_: Any) -> npt.NDArray[np.float64]:
        return np.asarray(value)

    return apply
