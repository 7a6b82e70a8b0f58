"""Other libraries that decode and resize photographs, where they are installed.

What they take beside Pillow decided which of them mlscope offers (`docs/decisions/`).
"""

import io
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from PIL import Image

from mlscope.image_geometry import covering, cut_before
from schemas.manifest import Step

Prepare = Callable[[int], object]


def alternatives(
    bodies: Sequence[bytes], array: Any, steps: Mapping[str, Step]
) -> dict[str, Prepare]:
    """Return ways to prepare the photographs in `bodies` into an `array`, by name.

    `steps` are those of the model, by operator: a covering size, a crop, means and scales.
    """
    place = _Place(array, steps)
    prepare_by_name: dict[str, Callable[[bytes, int], object]] = {
        "Pillow, resize(box=) for the crop alone": place.put_box
    }
    if find_spec("simplejpeg"):
        prepare_by_name["simplejpeg, Pillow"] = place.put_simplejpeg
        if find_spec("torch"):
            prepare_by_name["simplejpeg, PyTorch antialiased"] = place.put_torch
    return {
        name: lambda number, prepare=prepare: prepare(bodies[number], number)  # type: ignore[misc]
        for name, prepare in prepare_by_name.items()
    }


class _Place:
    """Places in a batch `array`, and what the `steps` of a model put there."""

    def __init__(self, array: Any, steps: Mapping[str, Step]) -> None:
        self._array = array
        self._covered = tuple(steps["resize"].parameters["dimensions"][-2:])
        self._side = steps["crop"].parameters["dimensions"][-1]
        self._means, self._scales = (
            np.array(steps["normalize"].parameters[name], np.float32) for name in ("mean", "scale")
        )

    def put_box(self, body: bytes, number: int) -> None:
        with Image.open(io.BytesIO(body)) as file:
            file.load()
            picture = file.convert("RGB")
        height, width = covering((picture.height, picture.width), self._covered)
        y, x = picture.height / height, picture.width / width
        top, left = (cut_before(edge - self._side, centred=True) for edge in (height, width))
        box = (left * x, top * y, (left + self._side) * x, (top + self._side) * y)
        size = self._side, self._side
        self._put(np.asarray(picture.resize(size, Image.Resampling.BILINEAR, box=box)), number)

    def put_simplejpeg(self, body: bytes, number: int) -> None:
        import simplejpeg

        picture = Image.fromarray(simplejpeg.decode_jpeg(body, "RGB"))
        height, width = covering((picture.height, picture.width), self._covered)
        resized = picture.resize((width, height), Image.Resampling.BILINEAR)
        self._put(self._cut(np.asarray(resized)), number)

    def put_torch(self, body: bytes, number: int) -> None:
        import simplejpeg
        import torch

        torch.set_num_threads(1)
        pixels = torch.from_numpy(simplejpeg.decode_jpeg(body, "RGB")).permute(2, 0, 1)[None]
        size = covering(pixels.shape[2:], self._covered)
        resize = torch.ops.aten._upsample_bilinear2d_aa  # noqa: SLF001  # no public one takes uint8
        self._put(self._cut(resize(pixels, size, False)[0].permute(1, 2, 0).numpy()), number)

    def _cut(self, pixels: Any) -> Any:
        top, left = (cut_before(edge - self._side, centred=True) for edge in pixels.shape[:2])
        return pixels[top : top + self._side, left : left + self._side]

    def _put(self, pixels: Any, number: int) -> None:
        for channel, plane in enumerate(self._array[number]):
            np.subtract(pixels[:, :, channel], self._means[channel], out=plane, dtype=np.float32)
            np.divide(plane, self._scales[channel], out=plane)
