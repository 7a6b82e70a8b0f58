"""crop: a window of the pixels."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mlscope.framing import cut_before, share
from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters

Pixels = npt.NDArray[np.generic]


def crop(parameters: Parameters) -> Callable[[Pixels], Pixels]:
    """Return (h, w, channels) -> a window of it, the same element type.

    The window is `dimensions`, or `ratio` (above 0, up to 1) of height and width each; `method`
    is center (where the rest is odd, half of it rounded to even: torchvision's CenterCrop) or
    top_left. A picture smaller than the window raises ValueError.
    """
    size = parameters.size(required=False)
    ratio = parameters.fraction("ratio")
    centred = parameters.choice("method", ("center", "top_left", "topleft"), "center") == "center"
    if (size is None) == (ratio is None):
        raise BadParameter("crop", "dimensions", size, "given, or else ratio")

    def apply(pixels: Pixels) -> Pixels:
        height, width = size or share(pixels.shape, ratio or 1.0)
        spare = pixels.shape[0] - height, pixels.shape[1] - width
        if min(spare) < 0:
            raise ValueError(f"{pixels.shape[:2]} is smaller than the crop {(height, width)}")
        top, left = (cut_before(each, centred=centred) for each in spare)
        return pixels[top : top + height, left : left + width]

    return apply
