"""What a predictor computes of pictures' bytes on its device, in place of the step `normalize`."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

OPTION = "normalize"
"""The option of a request: `host`, the default, or `device`."""
PLACES = ("host", "device")


@dataclass(frozen=True, slots=True)
class Normalization:
    """(x · `factor` - `mean`) / `scale` of bytes x in float32, one number or one for each channel.

    `on_host` is what the step gives for each byte and channel: float32 [256, channels].
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    factor: float
    #: whether a batch is [batch, channels, height, width], else [batch, height, width, channels]
    channels_first: bool
    on_host: npt.NDArray[np.float32]


def difference_note(name: str, device: str, difference: float) -> str:
    """Return what a reader must know: on the `device` the numbers of an input `name` differ.

    `difference` is the largest one over all values of a byte.
    """
    how = f"by at most {difference:.2g}" if difference else "in no bit"
    return (
        f"normalize of input {name or 'x'} runs on the device ({device}): over all values of a "
        f"byte its numbers differ from the host's {how}"
    )
