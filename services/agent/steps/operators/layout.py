"""layout: the order of a sample's dimensions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.forms import Forms, write_ordered
from services.agent.steps.parameters import Parameters


def layout(parameters: Parameters) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
    """Return a tensor of dimensions `from` -> a contiguous one of dimensions `to`.

    Each dimension is a letter, such as HWC and CHW. A letter that `from` lacks is a new dimension
    of size 1; one that `to` lacks must have size 1 and is removed. N, the batch, is ignored in
    both, as it is added later. Equal to numpy.transpose.
    """
    source = parameters.text("from", "HWC").replace("N", "")
    target = parameters.text("to", "CHW").replace("N", "")
    for name, letters in (("from", source), ("to", target)):
        if len(set(letters)) != len(letters):
            raise BadParameter("layout", name, letters, "letters, each once")
    removed = [axis for axis, letter in enumerate(source) if letter not in target]
    order = [*removed, *(source.index(letter) for letter in target if letter in source)]
    added = tuple(axis for axis, letter in enumerate(target) if letter not in source)

    def apply(tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if tensor.ndim != len(source) or any(tensor.shape[axis] != 1 for axis in removed):
            raise ValueError(f"shape {tensor.shape} is not {source}, to become {target}")
        moved = tensor.transpose(order)[(0,) * len(removed)]
        return np.ascontiguousarray(np.expand_dims(moved, added))

    def write(tensor: npt.NDArray[Any], place: npt.NDArray[Any]) -> bool:
        fits = tensor.ndim == len(order) and tensor.dtype == place.dtype
        return fits and write_ordered(tensor, place, tuple(order))

    if not removed and not added:
        parameters.declare_forms(Forms(write=write, order=tuple(order)))
    return apply
