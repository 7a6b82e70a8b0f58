"""Resizing by fast_image_resize, which computes with the processor's vector instructions.

It takes a quarter of Pillow's time and rounds otherwise, so a manifest asks for it by name.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from services.agent.errors import PackageMissing

if TYPE_CHECKING:
    from PIL.Image import Image

#: the filters that differ from Pillow's by rounding only, by Pillow's names
FILTERS = {"BILINEAR": "bilinear", "BICUBIC": "catmull_rom"}
_NEEDED_BY = "step resize with library fast_image_resize"
_MODES = ("L", "RGB", "F")
_SOURCE_SIZE, _SMALLER_SIZE = (317, 251), (224, 224)
"""Width and height of the test picture, before and after."""


class FastResizer:
    """Resizes pictures in Pillow with a filter of `FILTERS`."""

    def __init__(self, method: str) -> None:
        """Take a `method` by Pillow's name. Raises PackageMissing."""
        try:
            self._library: Any = import_module("cykooz_resizer")
        except ImportError as error:
            reason = f"{error}; pip install 'mlscope[resizing]'"
            raise PackageMissing(_NEEDED_BY, reason) from error
        self._method = method
        #: with its version
        self.name = f"fast_image_resize (cykooz-resizer {metadata.version('cykooz-resizer')})"
        kind = getattr(self._library.FilterType, FILTERS[method])
        algorithm = self._library.ResizeAlg.convolution(kind)
        self._options = self._library.ResizeOptions(resize_alg=algorithm)

    def __call__(self, picture: "Image", size: tuple[int, int]) -> "Image":
        """Return a picture of 1 or 3 channels in a `size` (width, height). Raises ValueError."""
        from PIL import Image

        if picture.mode not in _MODES:
            raise ValueError(f"fast_image_resize takes 1 or 3 channels, not {picture.mode}")
        resized = Image.new(picture.mode, size)
        # A resizer of its own: threads may not share one.
        self._library.Resizer().resize_pil(picture, resized, self._options)
        return resized

    def difference(self) -> str:
        """Return in words how far its pixels are from Pillow's in noise, where they differ most.

        Raises PackageMissing where it cannot resize pictures of the Pillow that is installed.
        """
        from PIL import Image

        shape = (*_SOURCE_SIZE[::-1], 3)
        noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, shape, np.uint8))
        expected = noise.resize(_SMALLER_SIZE, Image.Resampling[self._method])
        try:
            resized = self(noise, _SMALLER_SIZE)
        except (
            Exception
        ) as error:  # it reads Pillow's memory, which another release may lay out anew
            raise PackageMissing(_NEEDED_BY, f"{self.name} and this Pillow: {error}") from error
        distances = np.abs(np.asarray(resized, np.int16) - np.asarray(expected, np.int16))
        return (
            f"resize is by {self.name}: on a picture of noise its pixels are up to"
            f" {distances.max()} of 255 from Pillow's, and"
            f" {np.count_nonzero(distances) / distances.size:.0%} of them differ"
        )
