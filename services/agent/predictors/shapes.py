"""What predictors have in common: zeros in a model's shape, and errors in one line."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.manifest import Port
from services.agent.predictors import TensorPlace


def zeros(
    places: Sequence[TensorPlace], ports: Sequence[Port], batch_size: int
) -> dict[str, npt.NDArray[Any]]:
    """Return zeros for one batch in the inputs' shapes.

    What the model leaves free the manifest's `ports` fill, in order; what both leave free is 1.
    """
    filled = {}
    for number, place in enumerate(places):
        wanted = ports[number].shape if number < len(ports) else ()
        shape = place.shape
        if len(wanted) == len(shape):
            shape = tuple(b if a < 0 else a for a, b in zip(shape, wanted, strict=True))
        sizes = (batch_size, *(max(size, 1) for size in shape[1:])) if shape else ()
        filled[place.name] = np.zeros(sizes, place.element_type)
    return filled


def first_line(error: BaseException) -> str:
    """Return an error's first line, at most 500 characters; its type where it says nothing."""
    return str(error).splitlines()[0][:500] if str(error) else type(error).__name__
