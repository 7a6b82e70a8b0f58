"""normalize: pixels to numbers around zero."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters

Pixels = npt.NDArray[np.generic]


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

    def plain(pixels: Pixels) -> npt.NDArray[np.float32]:
        return (pixels.astype(np.float32) - mean) / scale

    def rescaled(pixels: Pixels) -> npt.NDArray[np.float32]:
        return (pixels.astype(np.float32) * np.float32(factor) - mean) / scale

    return plain if factor == 1.0 else rescaled
