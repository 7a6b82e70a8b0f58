"""boxes and masks: a detector's outputs to features."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.errors import BadParameter
from services.agent.steps.parameters import Parameters
from services.agent.steps.suppression import suppressed

Feature = dict[str, Any]
Batch = Any
"""An array, first dimension the batch, or a list with an array a sample."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which of a sample's shapes become features, best first, with their scores and classes."""

    places: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]
    classes: npt.NDArray[np.int64]


class Choice:
    """How shapes are chosen: the parameters that boxes and masks share."""

    def __init__(self, parameters: Parameters) -> None:
        self._labels = parameters.labels(("labels", "labels_url"))
        self._least = parameters.number("score", default=0.0)
        self._most = parameters.whole("most", default=100)
        self._offset = parameters.whole("first_class", default=0, least=0)
        self._has_classes, self._has_count = False, False
        if not parameters.output("scores"):
            raise BadParameter(
                parameters.operator, "scores", "", "the layer_name of the scores' output"
            )
        self._has_classes = bool(parameters.output("classes"))
        self._has_count = bool(parameters.output("count"))

    def of(self, sample: int, others: tuple[Batch, ...], iou: float, boxes: Any) -> Chosen:
        """Return the shapes of a sample to keep; `iou` 1 suppresses none."""
        rest = list(others[1:])
        scores = np.asarray(others[0][sample], np.float64)
        if self._has_classes:
            classes = np.asarray(rest.pop(0)[sample]).reshape(-1).astype(np.int64)
        else:
            scores = scores.reshape(len(scores), -1)[:, self._offset :]
            classes = np.argmax(scores, axis=1) + self._offset
            scores = scores.max(axis=1)
        scores = scores.reshape(-1)
        count = int(np.asarray(rest.pop(0)[sample]).reshape(-1)[0]) if self._has_count else None
        # NaN is no score: it compares as not enough.
        places = np.flatnonzero(scores[:count] >= self._least)
        places = places[np.argsort(-scores[places], kind="stable")]
        if iou < 1.0:
            left = suppressed(boxes[places], scores[places], classes[places], iou)
            places = places[left]
        places = places[: self._most]
        return Chosen(places, scores[places], classes[places])

    def features(self, kind: str, chosen: Chosen) -> Iterator[tuple[int, Feature]]:
        """Yield each place and the feature it becomes: type, index, label, probability."""
        for place, score, index in zip(chosen.places, chosen.scores, chosen.classes, strict=True):
            label = self._labels[index] if 0 <= index < len(self._labels) else ""
            yield (
                int(place),
                {"type": kind, "index": int(index), "label": label, "probability": float(score)},
            )


def boxes(parameters: Parameters) -> Callable[..., list[list[Feature]]]:
    """Return (batch, n, 4), and other outputs -> for each sample its boxes, best first.

    `scores` names the output (batch, n), or (batch, n, classes) where `classes`, the output
    (batch, n) of class numbers, is not given; `first_class` skips a background before it. `count`
    names the output (batch,) of how many boxes are meant. `format` is what the numbers of a box
    are: xyxy, yxyx, xywh or cxcywh. At least `score`, and above `iou` (1: off) the worse of two of
    one class goes; the best `most` stay. A feature is `{"type": "boundingbox", "index", "label",
    "probability", "xmin", "ymin", "xmax", "ymax"}` in the unit of the model's boxes.
    """
    form = parameters.choice("format", ("xyxy", "yxyx", "xywh", "cxcywh"), "xyxy")
    iou = parameters.fraction("iou") or 1.0
    choice = Choice(parameters)

    def apply(values: Batch, *others: Batch) -> list[list[Feature]]:
        answers = []
        for sample in range(len(values)):
            corners = corners_of(np.asarray(values[sample], np.float64).reshape(-1, 4), form)
            found = choice.features("boundingbox", choice.of(sample, others, iou, corners))
            answers.append([{**feature, **_corners(corners[place])} for place, feature in found])
        return answers

    return apply


def masks(parameters: Parameters) -> Callable[..., list[list[Feature]]]:
    """Return (batch, n, h, w) or (batch, n, 1, h, w), and other outputs -> masks, best first.

    A pixel belongs to a mask from `threshold`. Scores, classes and count are as of `boxes`. A
    feature is `{"type": "instancesegment", "index", "label", "probability", "mask": {"size":
    [h, w], "counts"}}`, counts as COCO's: runs of 0 and 1 in turn, by columns, 0 first.
    """
    threshold = parameters.number("threshold", default=0.5)
    choice = Choice(parameters)

    def apply(values: Batch, *others: Batch) -> list[list[Feature]]:
        answers = []
        for sample in range(len(values)):
            shapes = np.asarray(values[sample])
            shapes = shapes.reshape(len(shapes), *shapes.shape[-2:])
            found = choice.features("instancesegment", choice.of(sample, others, 1.0, None))
            answers.append(
                [{**each, "mask": mask_of(shapes[place] >= threshold)} for place, each in found]
            )
        return answers

    return apply


def corners_of(values: npt.NDArray[np.float64], form: str) -> npt.NDArray[np.float64]:
    """Return boxes (n, 4) of a format as xmin, ymin, xmax, ymax."""
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


def _corners(box: npt.NDArray[np.float64]) -> dict[str, float]:
    return dict(zip(("xmin", "ymin", "xmax", "ymax"), box.tolist(), strict=True))
