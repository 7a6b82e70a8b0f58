"""crop: pixels to a window of them."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mlscope.image_geometry import cut_before, share
from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters

Pixels = npt.NDArray[np.generic]


def crop(parameters: Parameters) -> Callable[[Pixels], Pixels]:
    """Return (h, w, channels) -> a window of it, of the same element type.

    The window has the size `dimensions`, or the fraction `ratio` (above 0, up to 1) of height and
    width. `method` is center (half of an odd margin is rounded to even, as in torchvision's
    CenterCrop) or top_left. A picture smaller than the window raises ValueError.
    """
    size = parameters.size(required=False)
    ratio = parameters.fraction("ratio")
    centred = parameters.choice("method", ("center", "top_left", "topleft"), "center") == "center"
    if (size is None) == (ratio is None):
        raise BadParameter("crop", "dimensions", size, "given, or else ratio")

    def apply(pixels: Pixels) -> Pixels:
        height, width = size or share(pixels.shape, ratio or 1.0)
        margins = pixels.shape[0] - height, pixels.shape[1] - width
        if min(margins) < 0:
            raise ValueError(f"{pixels.shape[:2]} is smaller than the crop {(height, width)}")
        y, x = (cut_before(margin, centred=centred) for margin in margins)
        return pixels[y : y + height, x : x + width]

    return apply
