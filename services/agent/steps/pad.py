"""pad: pixels with a border."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mlscope.framing import padded_before
from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters

Pixels = npt.NDArray[Any]


def pad(parameters: Parameters) -> Callable[[Pixels], Pixels]:
    """Return (h, w, channels) -> at least that many pixels, the same element type.

    Up to `dimensions`, or to the next multiple of `multiple` of each side. `method` center puts
    the picture in the middle (the odd pixel at the bottom and right), top_left in that corner;
    the border has `value`. A picture larger than `dimensions` raises ValueError. Equal to
    numpy.pad of mode constant.
    """
    size = parameters.size(required=False)
    multiple = parameters.whole("multiple", default=0, least=0)
    if (size is None) == (multiple == 0):
        raise BadParameter("pad", "dimensions", size, "given, or else multiple")
    centred = parameters.choice("method", ("center", "top_left"), "center") == "center"
    value = parameters.number("value", default=0.0)

    def apply(pixels: Pixels) -> Pixels:
        have = pixels.shape[:2]
        want = size or tuple(-(-side // multiple) * multiple for side in have)
        spare = [wanted - side for wanted, side in zip(want, have, strict=True)]
        if min(spare) < 0:
            raise ValueError(f"{have} is larger than the padded size {want}")
        before = [padded_before(each, centred=centred) for each in spare]
        widths = [(b, each - b) for b, each in zip(before, spare, strict=True)]
        return np.pad(pixels, (*widths, (0, 0)), constant_values=pixels.dtype.type(value))

    return apply
