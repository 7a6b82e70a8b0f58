"""crop: pixels to a window of them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mlscope.image_geometry import cut_before, share
from services.agent.errors import BadParameter
from services.agent.steps.forms import CropForm, Forms
from services.agent.steps.parameters import Parameters

if TYPE_CHECKING:
    from PIL.Image import Image

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

    def window_of(sides: tuple[int, ...]) -> tuple[int, int, int, int]:
        """Return the window's top, left, bottom and right in a picture of (height, width)."""
        height, width = size or share(sides, ratio or 1.0)
        margins = sides[0] - height, sides[1] - width
        if min(margins) < 0:
            raise ValueError(f"{sides} is smaller than the crop {(height, width)}")
        top, left = (cut_before(margin, centred=centred) for margin in margins)
        return top, left, top + height, left + width

    def apply(pixels: Pixels) -> Pixels:
        top, left, bottom, right = window_of(pixels.shape[:2])
        return pixels[top:bottom, left:right]

    def edit_picture(picture: "Image") -> "Image":
        top, left, bottom, right = window_of((picture.height, picture.width))
        return picture.crop((left, top, right, bottom))

    parameters.declare_forms(Forms(edit_picture=edit_picture, on_device=CropForm(window_of)))
    return apply
