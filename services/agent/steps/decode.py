"""decode: a file's bytes to pixels."""

import io
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters, require_pillow

_FORMATS = ("JPEG", "PNG", "WEBP")


def decode(parameters: Parameters) -> Callable[[bytes], npt.NDArray[np.uint8]]:
    """Return JPEG, PNG or WebP bytes -> uint8 (height, width, 3), each 0 to 255.

    `color_mode` (or `color_layout`) is RGB or BGR; grey and palette pictures become three
    channels, transparency is dropped. `element_type` and `data_layout` of the papers' listings
    are read and must say what comes out: uint8, HWC. A broken or cut file raises ValueError.
    """
    mode = parameters.choice("color_layout", ("RGB", "BGR"), "RGB")
    mode = parameters.choice("color_mode", ("RGB", "BGR"), mode)
    require_pillow("decode")
    parameters.choice("element_type", ("uint8", "int8"), "uint8")
    parameters.choice("data_layout", ("HWC", "NHWC"), "HWC")

    def apply(body: bytes) -> npt.NDArray[np.uint8]:
        pixels = _pixels(body)
        return pixels if mode == "RGB" else np.ascontiguousarray(pixels[:, :, ::-1])

    return apply


def _pixels(body: bytes) -> npt.NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(body), formats=_FORMATS) as picture:
            return np.asarray(picture.convert("RGB"))
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError) as error:
        raise ValueError(f"not a readable JPEG, PNG or WebP picture: {error}") from error
