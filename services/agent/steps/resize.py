"""resize: pixels to another height and width."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mlscope.framing import covering, inside, within
from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters, require_pillow

_METHODS = ("bilinear", "bicubic", "nearest", "area", "box", "hamming", "lanczos")
Pixels = npt.NDArray[Any]


def resize(parameters: Parameters) -> Callable[[Pixels], Pixels]:
    """Return (h, w, channels) -> (height, width, channels), the same element type.

    uint8 of 1, 3 or 4 channels, or float32 of any number, each channel by itself. `method` is
    Pillow's, to the bit: nearest, bilinear, bicubic, hamming, lanczos, box (but for nearest they
    filter when they shrink); area is another name of box. With `antialias` false, bilinear takes
    the four nearest pixels however much it shrinks, as TensorFlow's tf.image.resize and
    PyTorch's interpolate do: pixel centres at halves, within 1e-4 of float32 values 0 to 255.

    The size is `dimensions`; with `keep_aspect_ratio` the picture is scaled until it covers them:
    the shorter side fits and the longer one, cut to whole pixels as torchvision's Resize does,
    sticks out for a crop to cut; with `fit` inside until it is as large as they let it be, for a
    pad to fill. With `max_dimension` instead the longer side gets that many pixels, the other by
    ratio, rounded.
    """
    require_pillow("resize")
    size = parameters.size(required=False)
    most = parameters.whole("max_dimension", default=0, least=0)
    if (size is None) == (most == 0):
        raise BadParameter("resize", "dimensions", size, "given, or else max_dimension")
    method = parameters.choice("method", _METHODS, "bilinear").replace("area", "box").upper()
    resized = _filtered(method)
    if not parameters.flag("antialias", default=True):
        if method not in ("BILINEAR", "NEAREST"):
            raise BadParameter("resize", "antialias", False, f"true with {method.lower()}")
        resized = _linear if method == "BILINEAR" else resized
    keeps = parameters.flag("keep_aspect_ratio", default=False)
    scaled = (
        inside if parameters.choice("fit", ("cover", "inside"), "cover") == "inside" else covering
    )

    def apply(pixels: Pixels) -> Pixels:
        have = pixels.shape[:2]
        if size is None:
            return resized(pixels, within(have, most))
        return resized(pixels, scaled(have, size) if keeps else size)

    return apply


def _filtered(method: str) -> Callable[[Pixels, tuple[int, int]], Pixels]:
    return lambda pixels, size: _resized(pixels, size, method)


def _linear(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Return pixels in between the four nearest, edges repeated; uint8 is rounded to even."""
    values = pixels.astype(np.float32)
    for axis, want in enumerate(size):
        last = values.shape[axis] - 1
        at = ((np.arange(want) + 0.5) * ((last + 1) / want) - 0.5).clip(0, last)
        low = at.astype(np.intp)
        share = (at - low).astype(np.float32).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        high = np.minimum(low + 1, last)
        values = values.take(low, axis) * (1 - share) + values.take(high, axis) * share
    return values if pixels.dtype == np.float32 else np.rint(values).astype(pixels.dtype)


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
