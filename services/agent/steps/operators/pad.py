"""pad: pixels to larger pixels with a border."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mlscope.image_geometry import padded_before
from services.agent.errors import BadParameter
from services.agent.steps.forms import Forms
from services.agent.steps.parameters import Parameters

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = npt.NDArray[Any]


def pad(parameters: Parameters) -> Callable[[Pixels], Pixels]:
    """Return (h, w, channels) -> at least as many pixels, of the same element type.

    The result has the size `dimensions`, or sides that are the next multiples of `multiple`.
    `method` center puts the picture in the middle (an odd pixel is added at the bottom and right),
    top_left in that corner; the border has `value`. A picture larger than `dimensions` raises
    ValueError. Equal to numpy.pad with mode constant.
    """
    size = parameters.size(required=False)
    multiple = parameters.integer("multiple", default=0, minimum=0)
    if (size is None) == (multiple == 0):
        raise BadParameter("pad", "dimensions", size, "given, or else multiple")
    centred = parameters.choice("method", ("center", "top_left"), "center") == "center"
    value = parameters.number("value", default=0.0)

    def borders_of(sides: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return the pixels added before and after a picture of (height, width), by side."""
        padded = size or tuple(-(-side // multiple) * multiple for side in sides)
        borders = [new - old for new, old in zip(padded, sides, strict=True)]
        if min(borders) < 0:
            raise ValueError(f"{sides} is larger than the padded size {padded}")
        before = [padded_before(border, centred=centred) for border in borders]
        return [(start, border - start) for start, border in zip(before, borders, strict=True)]

    def apply(pixels: Pixels) -> Pixels:
        borders = borders_of(pixels.shape[:2])
        return np.pad(pixels, (*borders, (0, 0)), constant_values=pixels.dtype.type(value))

    def edit_picture(picture: "Image") -> "Image":
        from PIL import Image

        (above, below), (left, right) = borders_of((picture.height, picture.width))
        size = left + picture.width + right, above + picture.height + below
        padded = Image.new(picture.mode, size, (int(np.uint8(value)),) * len(picture.getbands()))
        padded.paste(picture, (left, above))
        return padded

    parameters.declare_forms(Forms(edit_picture=edit_picture))
    return apply
