"""segmentation: scores of pixels to a map of classes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters

Feature = dict[str, Any]


def segmentation(parameters: Parameters) -> Callable[[npt.NDArray[Any]], list[list[Feature]]]:
    """Return (batch, classes, h, w) -> for each sample a map of each pixel's best class.

    `data_layout` NHWC has the classes last. In (batch, h, w), or with one channel, the values are
    classes already. Of equal scores the lower class is better, as in numpy.argmax. The feature is
    `{"type": "semanticsegment", "size": [h, w], "runs": [[class, pixels]…] by rows, "classes":
    [{"index", "label", "pixels"}…]}`, with the class of most pixels first.
    """
    labels = parameters.class_names(("labels", "labels_url"))
    axis = -1 if parameters.choice("data_layout", ("NCHW", "NHWC"), "NCHW") == "NHWC" else 1

    def apply(values: npt.NDArray[Any]) -> list[list[Feature]]:
        if values.ndim == 4:
            if values.shape[axis] > 1:
                labels.require(values.shape[axis])
            values = values.take(0, axis) if values.shape[axis] == 1 else values.argmax(axis)
        if values.ndim != 3:
            raise ValueError(f"shape {values.shape} is not a map of pixels")
        return [[feature_of(sample.astype(np.int64))] for sample in values]

    def feature_of(pixels: npt.NDArray[np.int64]) -> Feature:
        flat = pixels.ravel()
        starts = np.concatenate(([0], np.flatnonzero(np.diff(flat)) + 1))
        lengths = np.diff(np.concatenate((starts, [flat.size])))
        classes, counts = np.unique(flat, return_counts=True)
        for index in classes[[0, -1]] if classes.size else ():
            labels.require_class(int(index))
        order = np.argsort(-counts, kind="stable")
        return {
            "type": "semanticsegment",
            "size": list(pixels.shape),
            "runs": np.stack([flat[starts], lengths], axis=1).tolist(),
            "classes": [
                {"index": index, "label": labels.of(index), "pixels": pixel_count}
                for index, pixel_count in zip(
                    classes[order].tolist(), counts[order].tolist(), strict=True
                )
            ],
        }

    return apply
