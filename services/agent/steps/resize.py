"""resize: pixels to another height and width."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters, require_pillow

_METHODS = ("bilinear", "bicubic", "nearest", "area", "box", "lanczos")
Pixels = npt.NDArray[Any]


def resize(parameters: Parameters) -> Callable[[Pixels], Pixels]:
    """Return (h, w, channels) -> (height, width, channels), the same element type.

    uint8 of 1, 3 or 4 channels, or float32 of any number, each channel by itself. `method` is
    Pillow's, to the bit: nearest, bilinear, bicubic, lanczos, box (they filter when they shrink);
    area is another name of box. The size is `dimensions`; with `keep_aspect_ratio` the picture is
    scaled until it covers them: the shorter side fits and the longer one sticks out, for a crop
    to cut; with `fit` inside until it is as large as they let it be, for a pad to fill. With
    `max_dimension` instead the longer side gets that many pixels, the other by ratio.
    """
    require_pillow("resize")
    size = parameters.size(required=False)
    most = parameters.whole("max_dimension", default=0, least=0)
    if (size is None) == (most == 0):
        raise BadParameter("resize", "dimensions", size, "given, or else max_dimension")
    method = parameters.choice("method", _METHODS, "bilinear").replace("area", "box").upper()
    keeps = parameters.flag("keep_aspect_ratio", default=False)
    scaled = (
        _inside if parameters.choice("fit", ("cover", "inside"), "cover") == "inside" else _covering
    )

    def apply(pixels: Pixels) -> Pixels:
        have = pixels.shape[:2]
        if size is None:
            return _resized(pixels, _within(have, most), method)
        return _resized(pixels, scaled(have, size) if keeps else size, method)

    return apply


def _resized(pixels: Pixels, size: tuple[int, int], method: str) -> Pixels:
    from PIL import Image

    filter_, whole = Image.Resampling[method], (size[1], size[0])
    if pixels.dtype == np.uint8 and pixels.shape[2] in (3, 4):
        return np.asarray(Image.fromarray(pixels).resize(whole, filter_))
    if pixels.dtype not in (np.uint8, np.float32):
        raise ValueError(f"resize takes uint8 or float32, not {pixels.dtype}")
    planes = [
        np.asarray(Image.fromarray(np.ascontiguousarray(plane)).resize(whole, filter_))
        for plane in np.moveaxis(pixels, 2, 0)
    ]
    return np.stack(planes, axis=2)


def _covering(have: tuple[int, ...], want: tuple[int, int]) -> tuple[int, int]:
    """Return `have` (height, width) scaled so that it just covers `want`."""
    scale = max(want[0] / have[0], want[1] / have[1])
    return max(want[0], round(have[0] * scale)), max(want[1], round(have[1] * scale))


def _inside(have: tuple[int, ...], want: tuple[int, int]) -> tuple[int, int]:
    """Return `have` (height, width) scaled so that it just fits into `want`."""
    scale = min(want[0] / have[0], want[1] / have[1])
    height, width = (max(1, round(side * scale)) for side in have)
    return min(want[0], height), min(want[1], width)


def _within(have: tuple[int, ...], most: int) -> tuple[int, int]:
    """Return `have` (height, width) scaled so that the longer side is `most`."""
    scale = most / max(have)
    return max(1, round(have[0] * scale)), max(1, round(have[1] * scale))
