"""Pixels as what a model's first step takes: an array, or a PNG file's bytes."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlscope.datasets.errors import PackageNeeded
from mlscope.datasets.options import Options

Pixels = NDArray[np.uint8]


def form_of(options: Options) -> Callable[[Pixels], Any]:
    """Return what the option `gives` makes of pixels (height, width, channels).

    png: a file's bytes, for models that decode (the default, as pictures come); array: as they
    are; chw: channels first. Raises BadOption, PackageNeeded.
    """
    gives = options.choice("gives", ("png", "array", "chw"), "png")
    if gives == "array":
        return np.ascontiguousarray
    if gives == "chw":
        return lambda pixels: np.ascontiguousarray(pixels.transpose(2, 0, 1))
    try:
        from PIL import Image
    except ImportError as error:
        raise PackageNeeded(options.reader, f"{error}; install Pillow, or give arrays") from error

    def png(pixels: Pixels) -> bytes:
        body = io.BytesIO()
        plain = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
        Image.fromarray(np.ascontiguousarray(plain)).save(body, "PNG", compress_level=1)
        return body.getvalue()

    return png
