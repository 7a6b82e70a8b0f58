"""normalize: pixels to numbers around zero."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.forms import Forms
from services.agent.steps.parameters import Parameters

Pixels = npt.NDArray[Any]
Numbers = npt.NDArray[np.float32]


def normalize(parameters: Parameters) -> Callable[[Pixels], npt.NDArray[np.float32]]:
    """Return (h, w, channels) -> float32 of the same shape: (x · rescale_factor - mean) / scale.

    `mean` and `scale` (or MLModelScope's `rescale`, which also divides) are one number, or one for
    each channel. Without `rescale_factor` they are in the unit of the pixels (0 to 255); with 1/255
    they are fractions, as in PyTorch. Within 1e-6 of the same formula in float64.
    """
    mean = np.array(parameters.per_channel(("mean",), default=0.0), np.float32)
    scale = np.array(parameters.per_channel(("scale", "rescale"), default=1.0), np.float32)
    factor = parameters.number("rescale_factor", default=1.0)
    if not scale.all():
        raise BadParameter("normalize", "scale", scale.tolist(), "other than 0")

    def apply(pixels: Pixels) -> npt.NDArray[np.float32]:
        result = np.empty(pixels.shape, np.float32)
        if write(pixels, result):
            return result
        values = pixels.astype(np.float32)
        if factor != 1.0:
            values *= np.float32(factor)
        return np.asarray((values - mean) / scale)

    def write(pixels: Pixels, place: Pixels) -> bool:
        if not _fits(pixels, place, max(mean.size, scale.size)):
            return False
        for part, out, part_mean, part_scale in _parts(pixels, place, mean, scale):
            if factor != 1.0:
                np.multiply(part, np.float32(factor), out=out, dtype=np.float32)
                part = out
            np.subtract(part, part_mean, out=out, dtype=np.float32)
            np.divide(out, part_scale, out=out)
        return True

    parameters.declare_forms(Forms(write=write, element_type=np.dtype(np.float32)))
    return apply


def _fits(pixels: Pixels, place: Pixels, numbers: int) -> bool:
    """Say whether pixels become float32 of their own shape, with one number or one a channel."""
    is_whole = pixels.ndim == 3 and pixels.shape == place.shape and numbers in (1, pixels.shape[2])
    return is_whole and place.dtype == np.float32 and pixels.dtype in (np.uint8, np.float32)


def _parts(
    pixels: Pixels, place: Pixels, mean: Numbers, scale: Numbers
) -> Iterator[tuple[Pixels, Numbers, Numbers, Numbers]]:
    """Yield parts of the pixels and of their place, each with the `mean` and `scale` for it.

    NumPy works along the last dimension, and three channels are too short for it: rows of whole
    pixels where the place has them, else planes of one channel each.
    """
    height, width, channels = pixels.shape
    means, scales = np.broadcast_to(mean, channels), np.broadcast_to(scale, channels)
    if place.flags.c_contiguous:
        rows, out = (array.reshape(height, width * channels) for array in (pixels, place))
        yield rows, out, np.tile(means, width), np.tile(scales, width)
        return
    for channel in range(channels):
        plane, out = pixels[:, :, channel], place[:, :, channel]
        yield plane, out, means[channel], scales[channel]
