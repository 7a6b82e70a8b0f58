"""segmentation: scores by pixel to a map of classes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import ClassNames, Parameters

Feature = dict[str, Any]


def segmentation(parameters: Parameters) -> Callable[[npt.NDArray[Any]], list[list[Feature]]]:
    """Return (batch, classes, h, w) -> for each sample its map: the class with most score a pixel.

    `data_layout` NHWC has the classes last; of (batch, h, w), or one channel, the values are the
    classes. Ties go to the lower class. The feature is `{"type": "semanticsegment", "size": [h, w],
    "runs": [[class, pixels]…] by rows, "classes": [{"index", "label", "pixels"}…]}`, most pixels
    first. The map is numpy.argmax's.
    """
    labels = parameters.class_names(("labels", "labels_url"))
    axis = -1 if parameters.choice("data_layout", ("NCHW", "NHWC"), "NCHW") == "NHWC" else 1

    def apply(values: npt.NDArray[Any]) -> list[list[Feature]]:
        if values.ndim == 4:
            if values.shape[axis] > 1:
                labels.require(values.shape[axis])
            values = values.take(0, axis) if values.shape[axis] == 1 else values.argmax(axis)
        if values.ndim != 3:
            raise ValueError(f"shape {values.shape} is no map of pixels")
        return [[_feature(each.astype(np.int64), labels)] for each in values]

    return apply


def _feature(pixels: npt.NDArray[np.int64], labels: ClassNames) -> Feature:
    flat = pixels.ravel()
    starts = np.concatenate(([0], np.flatnonzero(np.diff(flat)) + 1))
    lengths = np.diff(np.concatenate((starts, [flat.size])))
    found, counts = np.unique(flat, return_counts=True)
    for each in found[[0, -1]] if found.size else ():
        labels.require_class(int(each))
    order = np.argsort(-counts, kind="stable")
    return {
        "type": "semanticsegment",
        "size": list(pixels.shape),
        "runs": np.stack([flat[starts], lengths], axis=1).tolist(),
        "classes": [
            {
                "index": int(found[at]),
                "label": labels.of(int(found[at])),
                "pixels": int(counts[at]),
            }
            for at in order
        ],
    }
