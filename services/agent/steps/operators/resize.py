"""resize: pixels to another height and width."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mlscope.image_geometry import covering, inside, within
from services.agent.errors import BadParameter
from services.agent.steps.fast_resize import FILTERS, FastResizer
from services.agent.steps.forms import Forms, ResizeForm
from services.agent.steps.parameters import Parameters, require_pillow

if TYPE_CHECKING:
    from PIL.Image import Image

_METHODS = ("bilinear", "bicubic", "nearest", "area", "box", "hamming", "lanczos")
_ON_DEVICE = ("BILINEAR", "BICUBIC")
"""Methods that a device has, too."""
Pixels = npt.NDArray[Any]
Resample = Callable[["Image", tuple[int, int]], "Image"]
"""Returns a picture in a size (width, height)."""


def resize(parameters: Parameters) -> Callable[[Pixels], Pixels]:
    """Return (h, w, channels) -> (height, width, channels), the same element type.

    Pixels are uint8 of 1, 3 or 4 channels, or float32 of any number of channels. `method` is
    nearest, bilinear, bicubic, hamming, lanczos or box, equal to Pillow's in every bit; all but
    nearest filter when they shrink; area is another name for box. With `antialias` false, bilinear
    uses the four nearest pixels however much it shrinks, like TensorFlow's tf.image.resize and
    PyTorch's interpolate: pixel centres are at halves; within 1e-4 for float32 values 0 to 255.

    The size is `dimensions`. With `keep_aspect_ratio` the picture is scaled until it covers them:
    the shorter side fits, and the longer one, rounded down to whole pixels like torchvision's
    Resize, is left for a `crop`. With `fit` inside it is scaled until it just fits into them, for a
    `pad` to fill. With `max_dimension` instead, the longer side gets that many pixels and the other
    one keeps the ratio, rounded.

    `library` is pillow, or fast_image_resize for bilinear and bicubic: it takes a quarter of the
    time and rounds otherwise; the run's notes say by how much. Its pixels are uint8 of 1 or 3
    channels, or float32.
    """
    parameters.library = require_pillow("resize")
    size = parameters.size(required=False)
    longer_side = parameters.integer("max_dimension", default=0, minimum=0)
    if (size is None) == (longer_side == 0):
        raise BadParameter("resize", "dimensions", size, "given, or else max_dimension")
    method = parameters.choice("method", _METHODS, "bilinear").replace("area", "box").upper()
    is_filtered = parameters.flag("antialias", default=True)
    if not is_filtered and method not in ("BILINEAR", "NEAREST"):
        raise BadParameter("resize", "antialias", False, f"true with {method.lower()}")
    keeps_ratio = parameters.flag("keep_aspect_ratio", default=False)
    fit = parameters.choice("fit", ("cover", "inside"), "cover")
    scaled = inside if fit == "inside" else covering
    resample = _resampler(parameters, method, is_filtered=is_filtered)

    def size_of(sides: tuple[int, ...]) -> tuple[int, int]:
        if size is None:
            return within(sides, longer_side)
        return scaled(sides, size) if keeps_ratio else size

    def apply(pixels: Pixels) -> Pixels:
        new_size = size_of(pixels.shape[:2])
        if method == "BILINEAR" and not is_filtered:
            return interpolated(pixels, new_size)
        return resampled(pixels, new_size, resample)

    def edit_picture(picture: "Image") -> "Image":
        new_height, new_width = size_of((picture.height, picture.width))
        return resample(picture, (new_width, new_height))

    if is_filtered or method == "NEAREST":
        is_plain = method in _ON_DEVICE and is_filtered and isinstance(resample, PillowResizer)
        on_device = ResizeForm(size_of, method.lower()) if is_plain else None
        parameters.declare_forms(Forms(edit_picture=edit_picture, on_device=on_device))
    return apply


def _resampler(parameters: Parameters, method: str, *, is_filtered: bool) -> Resample:
    """Return the function of the parameter `library` that resizes a picture by a `method`."""
    library = parameters.choice("library", ("pillow", "fast_image_resize"), "pillow")
    if library == "pillow":
        return PillowResizer(method)
    if method not in FILTERS or not is_filtered:
        expected = f"pillow with {method.lower()}{'' if is_filtered else ' and antialias false'}"
        raise BadParameter("resize", "library", library, expected)
    resizer = FastResizer(method)
    parameters.library = resizer.name
    parameters.note(resizer.difference())
    return resizer


@dataclass(frozen=True, slots=True)
class PillowResizer:
    """Resizes pictures in Pillow by a method of its own, as BILINEAR."""

    method: str

    def __call__(self, picture: "Image", size: tuple[int, int]) -> "Image":
        """Return the picture in a `size` (width, height)."""
        from PIL import Image

        return picture.resize(size, Image.Resampling[self.method])


def interpolated(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Return pixels interpolated between the four nearest ones, in a `size` [height, width].

    Edges are repeated, uint8 is rounded to even.
    """
    values = pixels.astype(np.float32)
    for axis, new_side in enumerate(size):
        last = values.shape[axis] - 1
        position = ((np.arange(new_side) + 0.5) * ((last + 1) / new_side) - 0.5).clip(0, last)
        low = position.astype(np.intp)
        share = (position - low).astype(np.float32)
        share = share.reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        high = np.minimum(low + 1, last)
        values = values.take(low, axis) * (1 - share) + values.take(high, axis) * share
    return values if pixels.dtype == np.float32 else np.rint(values).astype(pixels.dtype)


def resampled(pixels: Pixels, size: tuple[int, int], resample: Resample) -> Pixels:
    """Return pixels in a `size` [height, width], each picture or plane by `resample`.

    Raises ValueError for pixels that are neither uint8 nor float32.
    """
    from PIL import Image

    pillow_size = size[1], size[0]
    if pixels.dtype == np.uint8 and pixels.shape[2] in (3, 4):
        return np.asarray(resample(Image.fromarray(pixels), pillow_size))
    if pixels.dtype not in (np.uint8, np.float32):
        raise ValueError(f"resize takes uint8 or float32, not {pixels.dtype}")
    planes = [
        np.asarray(resample(Image.fromarray(np.ascontiguousarray(plane)), pillow_size))
        for plane in np.moveaxis(pixels, 2, 0)
    ]
    return np.stack(planes, axis=2)
