"""Boxes and masks: average precision as COCO has it, in the pixels of the picture."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlscope.accuracy import (
    AccuracyError,
    Found,
    Mask,
    Outcome,
    ShapesDiffer,
    Truth,
    average_precision,
    decompressed,
    mask_of,
    mask_of_outlines,
    nearest,
    pixels_of,
)
from services.analyzer.frames import Aim
from services.analyzer.judging.judgement import Judgement
from services.analyzer.predictions import Prediction

SHAPE_DRAWS = 200
"""Draws of images for average precision, which are dear."""


_NOT_PLACED = "shapes could not be placed on the picture or read, or were too large to be kept"


_MOST_SHARE = 1.5


Pair = tuple[Truth, Found] | None


def shapes(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:
    """Return COCO's average precision and recall of boxes or masks."""
    known = [answer for answer in answers if "objects" in answer.truth]
    if not known:
        return []
    numbers = _Numbers(known)
    # One that found nothing has no kind.
    has_masks = any(each.kind == "instancesegment" for each in known)
    pairs = [_pair(each, numbers, aim, has_masks=has_masks) for each in known]
    whole = [pair for pair in pairs if pair is not None]
    if not whole:
        outcome = Outcome("mAP", None, 0, None, "COCO", (_NOT_PLACED,), len(pairs))
        return [Judgement(outcome, "true shapes")]
    truths, found = zip(*whole, strict=True)
    outcomes = average_precision(truths, found, draws=SHAPE_DRAWS).outcomes
    kind = "masks" if has_masks else "boxes"
    told = []
    for name, shown in (("AP", "mAP"), ("AP50", "mAP50"), ("AP75", "mAP75"), ("AR100", "AR100")):
        method = f"{outcomes[name].method}, {kind}"
        outcome = replace(
            outcomes[name], name=shown, excluded=len(pairs) - len(whole), method=method
        )
        if len(pairs) > len(whole):
            outcome = outcome.warning(f"{len(pairs) - len(whole)} samples: {_NOT_PLACED}")
        told.append(Judgement(outcome, "true shapes", judged=len(whole)))
    return told


class _Numbers:
    """Class numbers of a dataset's objects by name, as far as its truths name them."""

    def __init__(self, answers: Sequence[Prediction]) -> None:
        self._by_name: dict[str, int] = {}
        for answer in answers:
            pairs = zip(
                answer.truth.get("labels", ()), answer.truth.get("classes", ()), strict=False
            )
            self._by_name |= {str(name).casefold(): int(number) for name, number in pairs}
        self._unknown: dict[str, int] = {}

    def of(self, feature: Mapping[str, Any]) -> int:
        """Return a shape's class; of a name that is nowhere true a number of its own."""
        name = str(feature.get("label") or "").casefold()
        if not name or not self._by_name:
            return int(feature["index"])
        if name in self._by_name:
            return self._by_name[name]
        return self._unknown.setdefault(name, -1 - len(self._unknown))


def _pair(answer: Prediction, numbers: _Numbers, aim: Aim, *, has_masks: bool) -> Pair:
    """Return a picture's true and found shapes: one that is odd loses its picture alone."""
    try:
        paired = _masks if has_masks else _boxes
        return paired(answer, numbers, aim)
    except (AccuracyError, LookupError, TypeError, ValueError):
        return None


def _boxes(answer: Prediction, numbers: _Numbers, aim: Aim) -> Pair:
    """Return a picture's true and found boxes in its own pixels; None where that can't be."""
    objects = answer.truth["objects"]
    kept = [each for each in answer.features if "xmin" in each]
    corners = np.array(
        [[each[side] for side in ("xmin", "ymin", "xmax", "ymax")] for each in kept], np.float64
    ).reshape(-1, 4)
    scale = _scale(corners, objects.get("size", (0, 0)), aim)
    if scale is None or "left_out_features" in (answer.features[-1] if answer.features else {}):
        return None
    corners = corners * np.array([*scale, *scale])
    boxes = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
    boxes[:, 2:] = np.clip(boxes[:, 2:], 0.0, None)
    return _truth(objects, objects["boxes"]), Found.of(
        boxes, [numbers.of(each) for each in kept], [each["probability"] for each in kept]
    )


def _scale(corners: Any, size: Sequence[int], aim: Aim) -> tuple[float, float] | None:
    """Return what x and y of found boxes are multiplied with to be the picture's pixels.

    Boxes within 0 to 1 (a little beyond at the edges) are shares of the picture; others are pixels
    of what the model saw: the picture, or what it was resized to.
    """
    height, width = size
    if aim.is_cut:
        return None
    if corners.size and np.abs(corners).max() <= _MOST_SHARE:
        return (float(width), float(height)) if width and height else None
    if aim.resized is None:
        return 1.0, 1.0
    return (width / aim.resized[1], height / aim.resized[0]) if width and height else None


def _masks(answer: Prediction, numbers: _Numbers, aim: Aim) -> Pair:
    """Return a picture's true and found masks in its own pixels; None where that can't be."""
    objects = answer.truth["objects"]
    told, found = objects.get("segmentations", ()), answer.features
    # Of features that are left out the last one that was kept tells.
    if len(told) != len(objects["boxes"]) or any("left_out_features" in each for each in found):
        return None
    size = _size(objects)
    if size is None:
        return None
    true = [_true_mask(each, size) for each in told]
    placed = [_placed(_mask(each["mask"]), size, aim) for each in found]
    kept = [each for each in placed if each is not None]
    if len(kept) < len(found):
        return None
    return _truth(objects, true), Found.of(
        kept, [numbers.of(each) for each in found], [each["probability"] for each in found]
    )


def _size(objects: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return a picture's height and width: what its file says, else its run lengths."""
    runs = [each["size"] for each in objects["segmentations"] if isinstance(each, Mapping)]
    for size in (objects.get("size", (0, 0)), *runs):
        height, width = (int(side) for side in size)
        if height > 0 and width > 0:
            return height, width
    return None


def _true_mask(told: Any, size: tuple[int, int]) -> Mask:
    """Return a true mask of run lengths, or of polygons. Raises as `_pair` catches."""
    mask = _mask(told) if isinstance(told, Mapping) else mask_of_outlines(told, *size)
    if (mask.height, mask.width) != size:
        raise ShapesDiffer("size of masks", (mask.height, mask.width), size)
    return mask


def _placed(mask: Mask, size: tuple[int, int], aim: Aim) -> Mask | None:
    """Return a found mask in a picture's pixels; None where the model saw not all of it."""
    if aim.is_cut:
        return None
    if (mask.height, mask.width) == size:
        return mask
    return None if aim.is_coded else mask_of(nearest(pixels_of(mask), size))


def _truth(objects: Mapping[str, Any], shapes: Any) -> Truth:
    return Truth.of(shapes, objects["classes"], objects["crowd"], objects["areas"])


def _mask(told: Mapping[str, Any]) -> Mask:
    """Return a mask of run lengths, as COCO writes them. Raises as `_pair` catches."""
    (height, width), counts = told["size"], told["counts"]
    if isinstance(counts, str):
        return decompressed(counts, int(height), int(width))
    return Mask(int(height), int(width), tuple(int(each) for each in counts))
