"""decode: the bytes of a picture file to pixels."""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from services.agent.steps.forms import DecodeForm, Forms, pixels_of
from services.agent.steps.parameters import Parameters, require_pillow

if TYPE_CHECKING:
    from PIL.Image import Image

_FORMATS = ("JPEG", "PNG", "WEBP")
_MODES = ("RGB", "BGR", "L", "RGBA")
Pixels = npt.NDArray[np.uint8]


def decode(parameters: Parameters) -> Callable[[bytes], Pixels]:
    """Return JPEG, PNG or WebP bytes -> uint8 (height, width, channels), each 0 to 255.

    `color_mode` (or `color_layout`) is RGB, BGR, L (grey, 1 channel: 0.299 R + 0.587 G + 0.114 B)
    or RGBA; grey and palette pictures are converted to it, transparency remains only in RGBA.
    `data_layout` HWC or CHW is the order of the result, `element_type` uint8. Equal to Pillow's
    convert in every bit. A broken or incomplete file raises ValueError.
    """
    mode = parameters.choice("color_layout", _MODES, "RGB")
    mode = parameters.choice("color_mode", _MODES, mode)
    parameters.library = require_pillow("decode")
    parameters.choice("element_type", ("uint8", "int8"), "uint8")
    layout = parameters.choice("data_layout", ("HWC", "NHWC", "CHW", "NCHW"), "HWC")
    channels_first = layout.endswith("CHW")

    is_reversed = mode == "BGR"

    def open_picture(body: bytes) -> "Image":
        return opened_picture(body, "RGB" if is_reversed else mode)

    def apply(body: bytes) -> Pixels:
        pixels = pixels_of(open_picture(body), is_reversed=is_reversed)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1) if channels_first else pixels)

    if not channels_first:
        on_device = DecodeForm(is_reversed) if mode in ("RGB", "BGR") else None
        parameters.declare_forms(
            Forms(open_picture=open_picture, is_reversed=is_reversed, on_device=on_device)
        )
    return apply


def opened_picture(body: bytes, mode: str) -> "Image":
    """Return the decoded picture of a file's `body` in a `mode` of Pillow. Raises ValueError."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(body), formats=_FORMATS) as picture:
            picture.load()
            # Pillow's `convert` copies a picture that has the mode already.
            return picture if picture.mode == mode else picture.convert(mode)
    except UnidentifiedImageError as error:
        # Pillow's own text has an address in memory, which differs each time.
        raise ValueError("not a readable JPEG, PNG or WebP picture") from error
    except (Image.DecompressionBombError, OSError, SyntaxError) as error:
        raise ValueError(f"not a readable JPEG, PNG or WebP picture: {error}") from error
