"""Boxes and masks: COCO's average precision, in the pixels of the picture."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mlscope.accuracy import (
    AccuracyError,
    DetectedShapes,
    Mask,
    Outcome,
    ShapesDiffer,
    TrueShapes,
    average_precision,
    decompressed,
    mask_of,
    mask_of_outlines,
    pixels_of,
)
from mlscope.counts import many, verb
from mlscope.image_geometry import frame_of, map_to_image
from services.analyzer.frames.evaluation import ScoringContext
from services.analyzer.frames.predictions import Feature, Prediction
from services.analyzer.scoring.judgement import Judgement, warned

SHAPE_DRAWS = 200
"""Bootstrap draws of images for average precision, which are expensive."""


_BOX, _MASK = "boundingbox", "instancesegment"
_UNKNOWN_PART = (
    "the part of the picture that the model saw is unknown: inline code makes its input, or its "
    "inputs differ"
)
_UNKNOWN_SIZE = "the picture's size is unknown"

_MOST_SHARE = 1.5
"""Coordinates up to this are shares of the model's input, a little beyond its edges."""

Pair = tuple[TrueShapes, DetectedShapes]


class _Unplaced(AccuracyError):
    """Shapes that can't be compared with the picture's own; the text says why."""


def shapes(answers: Sequence[Prediction], scoring_context: ScoringContext) -> list[Judgement]:
    """Return COCO's average precision and recall of boxes or masks, of both where both exist.

    Metrics of masks beside boxes are called `mask mAP` etc.; they exist where true masks are known.
    """
    with_objects = [answer for answer in answers if "objects" in answer.truth]
    if not with_objects:
        return []
    # An answer without shapes has no kind.
    kinds = {feature.get("type") for answer in with_objects for feature in answer.features}
    if not {_BOX, _MASK} <= kinds:
        return _precision(with_objects, scoring_context, has_masks=_MASK in kinds)
    boxes = [_with_features_of(_BOX, answer) for answer in with_objects]
    judgements = _precision(boxes, scoring_context, has_masks=False)
    if any(answer.truth["objects"].get("segmentations") for answer in with_objects):
        masks = [_with_features_of(_MASK, answer) for answer in with_objects]
        for judgement in _precision(masks, scoring_context, has_masks=True):
            outcome = replace(judgement.outcome, name=f"mask {judgement.outcome.name}")
            judgements.append(replace(judgement, outcome=outcome))
    return judgements


def _with_features_of(kind: str, answer: Prediction) -> Prediction:
    features = [
        feature
        for feature in answer.features
        if feature.get("type") == kind or "left_out_features" in feature
    ]
    return replace(answer, features=features)


def _precision(
    answers: Sequence[Prediction], scoring_context: ScoringContext, *, has_masks: bool
) -> list[Judgement]:
    numbers = _ClassNumbers(answers)
    kind, pair_of = ("masks", _masks) if has_masks else ("boxes", _boxes)
    pairs: list[Pair] = []
    errors: list[str] = []
    for answer in answers:
        # An unreadable answer only loses its own picture.
        try:
            if answer.has_left_out_features:
                raise _Unplaced("too many shapes: they were not stored")
            pairs.append(pair_of(answer, numbers, scoring_context))
        except AccuracyError as error:
            errors.append(f"sample {answer.sample}: {error}")
        except (LookupError, TypeError, ValueError) as error:
            errors.append(f"sample {answer.sample}: shapes can't be read: {error}")
    if not pairs:
        outcome = Outcome("mAP", None, 0, None, "COCO", (), len(errors))
        return [Judgement(warned(outcome, errors), "true shapes")]
    truths, answered = zip(*pairs, strict=True)
    outcomes = average_precision(truths, answered, draws=SHAPE_DRAWS).outcomes
    judgements = []
    for key, name in (("AP", "mAP"), ("AP50", "mAP50"), ("AP75", "mAP75"), ("AR100", "AR100")):
        method = f"{outcomes[key].method}, {kind}"
        outcome = replace(outcomes[key], name=name, excluded=len(errors), method=method)
        judgements.append(Judgement(warned(outcome, errors), "true shapes", judged=len(pairs)))
    return judgements


class _ClassNumbers:
    """Class numbers of a dataset's objects by name, where its ground truth has names."""

    def __init__(self, answers: Sequence[Prediction]) -> None:
        self._by_name: dict[str, int] = {}
        for answer in answers:
            pairs = zip(
                answer.truth.get("labels", ()), answer.truth.get("classes", ()), strict=False
            )
            self._by_name |= {str(name).casefold(): int(number) for name, number in pairs}
        self._unknown: dict[str, int] = {}

    def of(self, feature: Mapping[str, Any]) -> int:
        """Return a shape's class number; a name that no true object has gets one of its own."""
        name = str(feature.get("label") or "").casefold()
        if not name or not self._by_name:
            return int(feature["index"])
        if name in self._by_name:
            return self._by_name[name]
        return self._unknown.setdefault(name, -1 - len(self._unknown))


def _boxes(answer: Prediction, numbers: _ClassNumbers, scoring_context: ScoringContext) -> Pair:
    """Return a picture's true and answered boxes in its own pixels. Raises like `_masks`."""
    objects = answer.truth["objects"]
    features = [feature for feature in answer.features if "xmin" in feature]
    corners = np.array(
        [[feature[side] for side in ("xmin", "ymin", "xmax", "ymax")] for feature in features],
        np.float64,
    ).reshape(-1, 4)
    corners = _on_picture(corners, objects.get("size", (0, 0)), scoring_context)
    boxes = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
    boxes[:, 2:] = np.clip(boxes[:, 2:], 0.0, None)
    return _pair(objects, objects["boxes"], boxes, features, numbers)


def _pair(
    objects: Mapping[str, Any],
    true_shapes: Any,
    answered_shapes: Any,
    features: Sequence[Feature],
    numbers: _ClassNumbers,
) -> Pair:
    truth = TrueShapes.of(true_shapes, objects["classes"], objects["crowd"], objects["areas"])
    answered = DetectedShapes.of(
        answered_shapes,
        [numbers.of(feature) for feature in features],
        [feature["probability"] for feature in features],
    )
    return truth, answered


def _on_picture(
    corners: npt.NDArray[np.float64], size: Sequence[int], scoring_context: ScoringContext
) -> npt.NDArray[np.float64]:
    """Return answered corners (left, top, right, bottom), shape [n, 4], in the picture's pixels.

    Corners within 0 to 1 (a little beyond at the edges) are shares of the model's input; others
    are its pixels. Input that inline code makes counts as the whole picture. Raises _Unplaced
    where the part of the picture in the input is unknown.
    """
    is_share = np.abs(corners).max(initial=0.0) <= _MOST_SHARE
    if scoring_context.geometry_steps is None:
        raise _Unplaced(_UNKNOWN_PART)
    if not corners.size or (not scoring_context.geometry_steps and not is_share):
        return corners
    if min(size) <= 0:
        raise _Unplaced(_UNKNOWN_SIZE)
    height, width = frame_of(scoring_context.geometry_steps, (int(size[0]), int(size[1])))
    sides = (width, height, width, height)
    columns = (
        side.to_image(corners[:, at] * (side.length if is_share else 1))
        for at, side in enumerate(sides)
    )
    return np.stack(list(columns), axis=1)


def _masks(answer: Prediction, numbers: _ClassNumbers, scoring_context: ScoringContext) -> Pair:
    """Return a picture's true and answered masks in its own pixels.

    Raises AccuracyError, LookupError, TypeError and ValueError for shapes that can't be read.
    """
    objects = answer.truth["objects"]
    segmentations = objects.get("segmentations", ())
    if len(segmentations) != len(objects["boxes"]):
        count = len(objects["boxes"])
        have = f"{many(count, 'true shape')} {verb(count, 'has', 'have')}"
        raise _Unplaced(f"{have} {many(len(segmentations), 'known mask')}")
    # The size in the file, else that of run lengths.
    run_sizes = [mask["size"] for mask in segmentations if isinstance(mask, Mapping)]
    sizes = ((int(h), int(w)) for h, w in (objects.get("size", (0, 0)), *run_sizes))
    size = next((size for size in sizes if min(size) > 0), None)
    if size is None:
        raise _Unplaced(_UNKNOWN_SIZE)
    true_masks = []
    for segmentation in segmentations:
        is_runs = isinstance(segmentation, Mapping)
        mask = _mask(segmentation) if is_runs else mask_of_outlines(segmentation, *size)
        if (mask.height, mask.width) != size:
            raise ShapesDiffer("size of masks", (mask.height, mask.width), size)
        true_masks.append(mask)
    masks = [_placed(_mask(f["mask"]), size, scoring_context) for f in answer.features]
    return _pair(objects, true_masks, masks, answer.features, numbers)


def _placed(mask: Mask, size: tuple[int, int], scoring_context: ScoringContext) -> Mask:
    """Return an answered mask, which covers the model's input, in the picture's pixels.

    Pixels outside of the input are empty. Raises _Unplaced where that part is unknown.
    """
    is_unknown = scoring_context.is_coded or scoring_context.geometry_steps is None
    if (mask.height, mask.width) == size and (is_unknown or not scoring_context.geometry_steps):
        return mask
    if is_unknown:
        raise _Unplaced(_UNKNOWN_PART)
    pixels, is_seen = map_to_image(
        pixels_of(mask), frame_of(scoring_context.geometry_steps or (), size), size
    )
    return mask_of(pixels.astype(bool) & is_seen)


def _mask(run_lengths: Mapping[str, Any]) -> Mask:
    """Return a mask of run lengths, as COCO writes them. Raises like `_masks`."""
    (height, width), counts = run_lengths["size"], run_lengths["counts"]
    if isinstance(counts, str):
        return decompressed(counts, int(height), int(width))
    return Mask(int(height), int(width), tuple(int(count) for count in counts))
