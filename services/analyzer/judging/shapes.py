"""Boxes and masks: average precision as COCO has it, in the pixels of the picture."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

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
    pixels_of,
)
from mlscope.framing import frame_of, placed
from services.analyzer.frames import Aim
from services.analyzer.judging.judgement import Judgement, warned
from services.analyzer.predictions import Prediction

SHAPE_DRAWS = 200
"""Draws of images for average precision, which are dear."""


_BOX, _MASK = "boundingbox", "instancesegment"
_UNKNOWN = "nobody knows what of the picture the model saw: code makes it, or its inputs differ"

_MOST_SHARE = 1.5
"""Places up to this are shares of what the model saw, a little beyond its edges."""

Pair = tuple[Truth, Found]


class _Unplaced(AccuracyError):
    """Shapes that can't be compared with the picture's own; the text says why."""


def shapes(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:
    """Return COCO's average precision and recall of boxes or masks; of answers with both, of each.

    Those of masks beside boxes are called `mask mAP`, and are there where true masks are known.
    """
    known = [answer for answer in answers if "objects" in answer.truth]
    if not known:
        return []
    # One that found nothing has no kind.
    kinds = {each.get("type") for answer in known for each in answer.features}
    if not {_BOX, _MASK} <= kinds:
        return _precision(known, aim, has_masks=_MASK in kinds)
    told = _precision([_only(_BOX, each) for each in known], aim, has_masks=False)
    if any(each.truth["objects"].get("segmentations") for each in known):
        masks = _precision([_only(_MASK, each) for each in known], aim, has_masks=True)
        for each in masks:
            outcome = replace(each.outcome, name=f"mask {each.outcome.name}")
            told.append(replace(each, outcome=outcome))
    return told


def _only(kind: str, answer: Prediction) -> Prediction:
    kept = [e for e in answer.features if e.get("type") == kind or "left_out_features" in e]
    return replace(answer, features=kept)


def _precision(known: Sequence[Prediction], aim: Aim, *, has_masks: bool) -> list[Judgement]:
    numbers = _Numbers(known)
    tried = [_pair(each, numbers, aim, has_masks=has_masks) for each in known]
    reasons = [each for each in tried if isinstance(each, str)]
    whole = [each for each in tried if not isinstance(each, str)]
    if not whole:
        outcome = Outcome("mAP", None, 0, None, "COCO", (), len(reasons))
        return [Judgement(warned(outcome, reasons), "true shapes")]
    truths, found = zip(*whole, strict=True)
    outcomes = average_precision(truths, found, draws=SHAPE_DRAWS).outcomes
    kind = "masks" if has_masks else "boxes"
    told = []
    for name, shown in (("AP", "mAP"), ("AP50", "mAP50"), ("AP75", "mAP75"), ("AR100", "AR100")):
        method = f"{outcomes[name].method}, {kind}"
        outcome = replace(outcomes[name], name=shown, excluded=len(reasons), method=method)
        told.append(Judgement(warned(outcome, reasons), "true shapes", judged=len(whole)))
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


def _pair(answer: Prediction, numbers: _Numbers, aim: Aim, *, has_masks: bool) -> Pair | str:
    """Return a picture's true and found shapes, or why it has none: an odd one loses it alone."""
    try:
        if any("left_out_features" in each for each in answer.features):
            raise _Unplaced("shapes were too many to be kept")
        paired = _masks if has_masks else _boxes
        return paired(answer, numbers, aim)
    except (AccuracyError, LookupError, TypeError, ValueError) as error:
        said = str(error) if isinstance(error, AccuracyError) else f"shapes can't be read: {error}"
        return f"sample {answer.sample}: {said}"


def _boxes(answer: Prediction, numbers: _Numbers, aim: Aim) -> Pair:
    """Return a picture's true and found boxes in its own pixels. Raises as `_pair` catches."""
    objects = answer.truth["objects"]
    kept = [each for each in answer.features if "xmin" in each]
    corners = np.array(
        [[each[side] for side in ("xmin", "ymin", "xmax", "ymax")] for each in kept], np.float64
    ).reshape(-1, 4)
    corners = _on_picture(corners, objects.get("size", (0, 0)), aim)
    boxes = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
    boxes[:, 2:] = np.clip(boxes[:, 2:], 0.0, None)
    return _truth(objects, objects["boxes"]), Found.of(
        boxes, [numbers.of(each) for each in kept], [each["probability"] for each in kept]
    )


def _on_picture(
    corners: npt.NDArray[np.float64], size: Sequence[int], aim: Aim
) -> npt.NDArray[np.float64]:
    """Return found corners (left, top, right, bottom) in the picture's pixels.

    Corners within 0 to 1 (a little beyond at the edges) are shares of what the model saw; others
    are its pixels. What inline code shows a model is taken for the picture as it is. Raises
    _Unplaced where nobody knows.
    """
    is_share = bool(corners.size) and np.abs(corners).max() <= _MOST_SHARE
    if aim.framing is None:
        raise _Unplaced(_UNKNOWN)
    if not corners.size or (not aim.framing and not is_share):
        return corners
    if min(size) <= 0:
        raise _Unplaced("the picture's size is not known")
    height, width = frame_of(aim.framing, (int(size[0]), int(size[1])))
    sides = (width, height, width, height)
    scale = [side.length if is_share else 1 for side in sides]
    return np.stack([side.places(corners[:, at] * scale[at]) for at, side in enumerate(sides)], 1)


def _masks(answer: Prediction, numbers: _Numbers, aim: Aim) -> Pair:
    """Return a picture's true and found masks in its own pixels. Raises as `_pair` catches."""
    objects = answer.truth["objects"]
    told, found = objects.get("segmentations", ()), answer.features
    if len(told) != len(objects["boxes"]):
        raise _Unplaced(f"{len(objects['boxes'])} shapes are true, {len(told)} masks of them known")
    size = _size(objects)
    if size is None:
        raise _Unplaced("the picture's size is not known")
    true = [_true_mask(each, size) for each in told]
    kept = [_placed(_mask(each["mask"]), size, aim) for each in found]
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


def _placed(mask: Mask, size: tuple[int, int], aim: Aim) -> Mask:
    """Return a found mask, over what the model saw, in a picture's pixels.

    What was cut off has nothing. Raises _Unplaced where nobody knows what the model saw.
    """
    is_unknown = aim.is_coded or aim.framing is None
    if (mask.height, mask.width) == size and (is_unknown or not aim.framing):
        return mask
    if is_unknown:
        raise _Unplaced(_UNKNOWN)
    pixels, seen = placed(pixels_of(mask), frame_of(aim.framing or (), size), size)
    return mask_of(pixels.astype(bool) & seen)


def _truth(objects: Mapping[str, Any], shapes: Any) -> Truth:
    return Truth.of(shapes, objects["classes"], objects["crowd"], objects["areas"])


def _mask(told: Mapping[str, Any]) -> Mask:
    """Return a mask of run lengths, as COCO writes them. Raises as `_pair` catches."""
    (height, width), counts = told["size"], told["counts"]
    if isinstance(counts, str):
        return decompressed(counts, int(height), int(width))
    return Mask(int(height), int(width), tuple(int(each) for each in counts))
