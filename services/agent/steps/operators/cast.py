"""cast: pixels to the element type and layout of the model's input."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from services.agent.steps.forms import Forms, write_ordered
from services.agent.steps.parameters import Parameters

_TYPES = ("float32", "float16", "float64", "uint8", "int8", "int32", "int64")
_LAYOUTS = ("HWC", "NHWC", "CHW", "NCHW")
Tensor = npt.NDArray[np.generic]


def cast(parameters: Parameters) -> Callable[[Tensor], Tensor]:
    """Return (h, w, channels) -> a contiguous tensor of `element_type`.

    `data_layout` (or `layout`) CHW or NCHW moves the channels first; HWC or NHWC, the default,
    leaves them last. N changes nothing, as the batch dimension is added later.
    """
    kind = np.dtype(parameters.choice("element_type", _TYPES, "float32"))
    layout = parameters.choice("layout", _LAYOUTS, "HWC")
    channels_first = parameters.choice("data_layout", _LAYOUTS, layout).endswith("CHW")

    def apply(tensor: Tensor) -> Tensor:
        moved = tensor.transpose(2, 0, 1) if channels_first else tensor
        return np.ascontiguousarray(moved, dtype=kind)

    order = (2, 0, 1) if channels_first else ()

    def write(tensor: Tensor, place: Tensor) -> bool:
        return place.dtype == kind and write_ordered(tensor, place, order)

    parameters.declare_forms(Forms(write=write, element_type=kind, order=order))
    return apply
