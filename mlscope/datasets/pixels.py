"""Pixels in the form that a model's first step takes: an array, or the bytes of a PNG file."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlscope.datasets.errors import PackageNeeded
from mlscope.datasets.options import Options

Pixels = NDArray[np.uint8]


def pixel_converter(options: Options) -> Callable[[Pixels], Any]:
    """Return a function of pixels (uint8, height x width x channels) after the option `gives`.

    `png` (the default): the bytes of a PNG file, for models that decode; `array`: the array itself;
    `chw`: an array with the channels first. Raises BadOption, PackageNeeded.
    """
    gives = options.choice("gives", ("png", "array", "chw"), "png")
    if gives == "array":
        return np.ascontiguousarray
    if gives == "chw":
        return lambda pixels: np.ascontiguousarray(pixels.transpose(2, 0, 1))
    try:
        from PIL import Image
    except ImportError as error:
        reason = f"{error}; pip install 'mlscope[images]', or set the option gives to array"
        raise PackageNeeded(options.reader, reason) from error

    def png_bytes(pixels: Pixels) -> bytes:
        file = io.BytesIO()
        plane = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
        Image.fromarray(np.ascontiguousarray(plane)).save(file, "PNG", compress_level=1)
        return file.getvalue()

    return png_bytes


form_of = pixel_converter  # its name of release 0.1, for readers in other packages, until 0.3
