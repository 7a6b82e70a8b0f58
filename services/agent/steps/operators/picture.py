"""image and raw: a model's output as pictures, or as numbers."""

import base64
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters, require_pillow

Feature = dict[str, Any]


def image(parameters: Parameters) -> Callable[[npt.NDArray[Any]], list[list[Feature]]]:
    """Return (batch, channels, h, w) -> for each sample a PNG of 1 or 3 channels.

    `data_layout` NHWC has the channels last. Pixels are x · scale + mean (the inverse of
    `normalize`), rounded half to even and clipped to 0…255; `color_mode` is the model's. The
    feature is `{"type": "image", "format": "png", "size": [h, w], "data"}` with data in base64.
    """
    channels_last = parameters.choice("data_layout", ("NCHW", "NHWC"), "NCHW") == "NHWC"
    mean = np.array(parameters.per_channel(("mean",), default=0.0))
    scale = np.array(parameters.per_channel(("scale",), default=1.0))
    is_bgr = parameters.choice("color_mode", ("RGB", "BGR"), "RGB") == "BGR"
    require_pillow("image")

    def apply(values: npt.NDArray[Any]) -> list[list[Feature]]:
        rows = values if channels_last else np.moveaxis(values, 1, -1)
        if rows.ndim != 4 or rows.shape[3] not in (1, 3):
            raise ValueError(f"shape {values.shape} is not a picture of 1 or 3 channels")
        pictures = np.nan_to_num(np.rint(rows * scale + mean)).clip(0, 255).astype(np.uint8)
        return [[png_of(pixels[:, :, ::-1] if is_bgr else pixels)] for pixels in pictures]

    def png_of(pixels: npt.NDArray[np.uint8]) -> Feature:
        from PIL import Image

        file = io.BytesIO()
        plane = pixels[:, :, 0] if pixels.shape[2] == 1 else pixels
        Image.fromarray(np.ascontiguousarray(plane)).save(file, "PNG")
        text = base64.b64encode(file.getvalue()).decode("ascii")
        return {"type": "image", "format": "png", "size": list(pixels.shape[:2]), "data": text}

    return apply


def raw(parameters: Parameters) -> Callable[[npt.NDArray[Any]], list[list[Feature]]]:
    """Return (batch, …) -> for each sample `{"type": "raw", "shape", "element_type", "values"}`.

    `values` are the first `most` (1,024 by default) values of the sample's tensor, by rows.
    """
    max_values = parameters.integer("most", default=1024)

    def apply(values: npt.NDArray[Any]) -> list[list[Feature]]:
        tensors = [np.asarray(sample) for sample in values]
        return [
            [
                {
                    "type": "raw",
                    "shape": list(tensor.shape),
                    "element_type": str(tensor.dtype),
                    "values": tensor.ravel()[:max_values].tolist(),
                }
            ]
            for tensor in tensors
        ]

    return apply
