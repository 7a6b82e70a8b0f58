"""resize: pixels to another height and width."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters, require_pillow


def resize(parameters: Parameters) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]:
    """Return uint8 (h, w, 3) -> uint8 (height, width, 3) of `dimensions`.

    `method` is bilinear, bicubic or nearest (Pillow's, which filter when they shrink).
    With `keep_aspect_ratio` the picture is scaled until it covers `dimensions`: the shorter
    side fits and the longer one sticks out, for a crop to cut.
    """
    require_pillow("resize")
    size = parameters.size()
    assert size is not None
    method = parameters.choice("method", ("bilinear", "bicubic", "nearest"), "bilinear")
    keeps = parameters.flag("keep_aspect_ratio", default=False)

    def apply(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        from PIL import Image

        height, width = _covering(pixels.shape[:2], size) if keeps else size
        filter_ = Image.Resampling[method.upper()]
        return np.asarray(Image.fromarray(pixels).resize((width, height), filter_))

    return apply


def _covering(have: tuple[int, ...], want: tuple[int, int]) -> tuple[int, int]:
    """Return `have` (height, width) scaled so that it just covers `want`."""
    scale = max(want[0] / have[0], want[1] / have[1])
    return max(want[0], round(have[0] * scale)), max(want[1], round(have[1] * scale))
