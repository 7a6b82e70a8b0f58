"""layout: the order of a sample's dimensions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters


def layout(parameters: Parameters) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
    """Return a tensor of dimensions `from` -> contiguous, with dimensions `to`.

    Each dimension is a letter, as HWC and CHW; a letter that `from` lacks is a new dimension of
    size 1, and one that `to` lacks must have size 1 and is taken away. N, the batch, is left out
    on both sides: batches form later. Equal to numpy.transpose.
    """
    source = parameters.letters("from", "HWC").replace("N", "")
    target = parameters.letters("to", "CHW").replace("N", "")
    for name, letters in (("from", source), ("to", target)):
        if len(set(letters)) != len(letters):
            raise BadParameter("layout", name, letters, "letters, each once")
    kept = [letter for letter in target if letter in source]
    gone = [source.index(letter) for letter in source if letter not in target]
    order = [*gone, *(source.index(letter) for letter in kept)]
    new = tuple(place for place, letter in enumerate(target) if letter not in source)

    def apply(tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if tensor.ndim != len(source) or any(tensor.shape[axis] != 1 for axis in gone):
            raise ValueError(f"shape {tensor.shape} is not {source}, to become {target}")
        moved = tensor.transpose(order)[(0,) * len(gone)]
        return np.ascontiguousarray(np.expand_dims(moved, new))

    return apply
