"""segmentation: scores of pixels to a map of classes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import ClassNames, Parameters
from services.agent.steps.runs import runs_of

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
            values = values.take(0, axis) if values.shape[axis] == 1 else best_class(values, axis)
        if values.ndim != 3:
            raise ValueError(f"shape {values.shape} is not a map of pixels")
        return [[feature_of(sample, labels)] for sample in values]

    return apply


def best_class(scores: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    """Return the index of the highest score along an `axis`, the lowest of equal ones.

    Equal to numpy.argmax, which takes eight times as long where the classes are not last.
    """
    classes = scores.shape[axis]
    if axis != 1 or classes > 256 or scores.dtype.kind not in "fiu":
        return np.asarray(np.argmax(scores, axis))
    best = scores[:, 0].copy()
    indices, index_if_better = (np.zeros(best.shape, np.uint8) for _ in range(2))
    is_better = np.empty(best.shape, np.bool_)
    for index in range(1, classes):
        np.greater(scores[:, index], best, out=is_better)
        np.maximum(scores[:, index], best, out=best)
        np.multiply(is_better.view(np.uint8), np.uint8(index), out=index_if_better)
        # A later class has a higher index, so the highest one is the last that was better.
        np.maximum(indices, index_if_better, out=indices)
    # The first NaN is the highest for argmax, and greater than nothing.
    return np.asarray(np.argmax(scores, axis)) if np.isnan(best).any() else indices


def feature_of(pixels: npt.NDArray[Any], labels: ClassNames) -> Feature:
    """Return a map of classes, `pixels` of shape (h, w), as a feature with their `labels`.

    Raises the error of `labels` for a class that they lack.
    """
    flat = pixels.ravel().astype(np.int64)
    classes, counts = np.unique(flat, return_counts=True)
    for index in classes[[0, -1]] if classes.size else ():
        labels.require_class(int(index))
    order = np.argsort(-counts, kind="stable")
    return {
        "type": "semanticsegment",
        "size": list(pixels.shape),
        "runs": runs_of(flat),
        "classes": [
            {"index": index, "label": labels.of(index), "pixels": pixel_count}
            for index, pixel_count in zip(
                classes[order].tolist(), counts[order].tolist(), strict=True
            )
        ],
    }
