"""boxes and masks: a detector's outputs to features."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters
from services.agent.steps.suppression import suppressed

_CORNER_NAMES = ("xmin", "ymin", "xmax", "ymax")
Feature = dict[str, Any]
Batch = Any
"""An array whose first dimension is the batch, or a list with an array for each sample."""


@dataclass(frozen=True, slots=True)
class Detections:
    """Indices of the boxes or masks of a sample that are reported, with scores and classes."""

    indices: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]
    classes: npt.NDArray[np.int64]


class Selection:
    """Selects detections by the parameters that boxes and masks share."""

    def __init__(self, parameters: Parameters) -> None:
        """Read the shared parameters. Raises BadParameter."""
        self._labels = parameters.labels(("labels", "labels_url"))
        self._min_score = parameters.number("score", default=0.0)
        self._max_count = parameters.integer("most", default=100)
        self._first_class = parameters.integer("first_class", default=0, minimum=0)
        self._has_classes, self._has_count = False, False
        if not parameters.output("scores"):
            raise BadParameter(
                parameters.operator, "scores", "", "the layer_name of the output with the scores"
            )
        self._has_classes = bool(parameters.output("classes"))
        self._has_count = bool(parameters.output("count"))

    def of(
        self, sample: int, extra_outputs: tuple[Batch, ...], iou: float, corners: Any
    ) -> Detections:
        """Return a sample's detections, best first.

        `sample`: its number in the batch; `extra_outputs`: scores, then classes and counts where
        they are outputs; `iou`: the overlap above which boxes are suppressed, none with 1;
        `corners`: the sample's boxes (n, 4).
        """
        score_output, *optional_outputs = extra_outputs
        scores = np.asarray(score_output[sample], np.float64)
        if self._has_classes:
            classes = np.asarray(optional_outputs.pop(0)[sample]).reshape(-1).astype(np.int64)
        else:
            scores = scores.reshape(len(scores), -1)[:, self._first_class :]
            classes = np.argmax(scores, axis=1) + self._first_class
            scores = scores.max(axis=1)
        scores = scores.reshape(-1)
        count = None
        if self._has_count:
            count = int(np.asarray(optional_outputs.pop(0)[sample]).reshape(-1)[0])
        # The comparison is false for NaN, so it is removed.
        indices = np.flatnonzero(scores[:count] >= self._min_score)
        indices = indices[np.argsort(-scores[indices], kind="stable")]
        if iou < 1.0:
            remaining = suppressed(
                corners[indices], scores[indices], classes[indices], iou, self._max_count
            )
            indices = indices[remaining]
        indices = indices[: self._max_count]
        return Detections(indices, scores[indices], classes[indices])

    def features(self, kind: str, detections: Detections) -> Iterator[tuple[int, Feature]]:
        """Yield the index of each detection and its feature, whose type is `kind`."""
        for index, score, number in zip(
            detections.indices, detections.scores, detections.classes, strict=True
        ):
            label = self._labels[number] if 0 <= number < len(self._labels) else ""
            yield (
                int(index),
                {"type": kind, "index": int(number), "label": label, "probability": float(score)},
            )


def boxes(parameters: Parameters) -> Callable[..., list[list[Feature]]]:
    """Return (batch, n, 4), and other outputs -> for each sample its boxes, best first.

    `scores` names the output (batch, n), or (batch, n, classes) without `classes`, which names the
    output (batch, n) of class numbers; `first_class` skips classes of background before it. `count`
    names the output (batch,) of the number of valid boxes. `format` is that of a box: xyxy, yxyx,
    xywh or cxcywh. Boxes below `score` are removed, then the worse of two boxes of one class that
    overlap by more than `iou` (1: none); the best `most` are returned. A feature is `{"type":
    "boundingbox", "index", "label", "probability", "xmin", "ymin", "xmax", "ymax"}` in the unit of
    the model's boxes.
    """
    form = parameters.choice("format", ("xyxy", "yxyx", "xywh", "cxcywh"), "xyxy")
    iou = parameters.fraction("iou") or 1.0
    selection = Selection(parameters)

    def apply(values: Batch, *extra_outputs: Batch) -> list[list[Feature]]:
        answers = []
        for sample in range(len(values)):
            corners = corners_of(np.asarray(values[sample], np.float64).reshape(-1, 4), form)
            detections = selection.of(sample, extra_outputs, iou, corners)
            answers.append(
                [
                    feature | dict(zip(_CORNER_NAMES, corners[index].tolist(), strict=True))
                    for index, feature in selection.features("boundingbox", detections)
                ]
            )
        return answers

    return apply


def masks(parameters: Parameters) -> Callable[..., list[list[Feature]]]:
    """Return (batch, n, h, w) or (batch, n, 1, h, w), and other outputs -> masks, best first.

    A pixel of at least `threshold` belongs to a mask. Scores, classes and count are those of
    `boxes`. A feature is `{"type": "instancesegment", "index", "label", "probability", "mask":
    {"size": [h, w], "counts"}}`; counts are COCO's: lengths of alternating runs of 0 and 1, by
    columns, 0 first.
    """
    threshold = parameters.number("threshold", default=0.5)
    selection = Selection(parameters)

    def apply(values: Batch, *extra_outputs: Batch) -> list[list[Feature]]:
        answers = []
        for sample in range(len(values)):
            likelihoods = np.asarray(values[sample])
            likelihoods = likelihoods.reshape(len(likelihoods), *likelihoods.shape[-2:])
            detections = selection.of(sample, extra_outputs, 1.0, None)
            answers.append(
                [
                    feature | {"mask": mask_of(likelihoods[index] >= threshold)}
                    for index, feature in selection.features("instancesegment", detections)
                ]
            )
        return answers

    return apply


def corners_of(values: npt.NDArray[np.float64], form: str) -> npt.NDArray[np.float64]:
    """Return boxes (n, 4) of the format `form` as xmin, ymin, xmax, ymax."""
    a, b, c, d = values.T
    if form == "yxyx":
        return np.stack([b, a, d, c], axis=1)
    if form == "xywh":
        return np.stack([a, b, a + c, b + d], axis=1)
    if form == "cxcywh":
        return np.stack([a - c / 2, b - d / 2, a + c / 2, b + d / 2], axis=1)
    return values


def mask_of(pixels: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Return COCO's uncompressed run lengths of a mask (h, w)."""
    flat = pixels.ravel(order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff(np.concatenate(([0], edges, [flat.size]))).tolist()
    return {"size": list(pixels.shape), "counts": [0, *counts] if flat[:1].any() else counts}
