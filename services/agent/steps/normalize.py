"""normalize: pixels to numbers around nought."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters

Pixels = npt.NDArray[np.generic]


def normalize(parameters: Parameters) -> Callable[[Pixels], npt.NDArray[np.float32]]:
    """Return (h, w, channels) -> float32 of the same shape: (x - mean) / scale.

    `mean` and `scale` (or the papers' `rescale`) are one number or one a channel, in the unit
    of the pixels (0 to 255).
    """
    mean = np.array(parameters.per_channel(("mean",), default=0.0), np.float32)
    scale = np.array(parameters.per_channel(("scale", "rescale"), default=1.0), np.float32)
    if not scale.all():
        raise BadParameter("normalize", "scale", scale.tolist(), "other than 0")

    def apply(pixels: Pixels) -> npt.NDArray[np.float32]:
        return (pixels.astype(np.float32) - mean) / scale

    return apply
