"""What is true of a sample, as it goes with its answer; and pictures judged where they are made.

Small truths travel: labels, texts, boxes. A picture or a map of classes is too large to be kept
twice a sample: what a metric needs of both is computed here.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlscope.accuracy import (
    AccuracyError,
    ShapesDiffer,
    Unusable,
    map_of_runs,
    psnr,
    require_pixels,
    ssim,
)
from mlscope.datasets.truth import Objects, Truth
from mlscope.framing import Frame, frame_of, framing_of, placed
from schemas.manifest import Step
from services.agent.pipeline import Pipeline
from services.agent.steps.parameters import require_pillow

Feature = Mapping[str, Any]
PEAK = 255.0
"""The largest value of a pixel: pictures are compared as bytes."""

IGNORED = 255
"""The class of pixels that nobody labelled, in VOC's and Cityscapes' maps."""

MOST_TRUTH_BYTES = 256 * 1024


def told_of(truth: Truth, answer: bytes) -> dict[str, Any]:
    """Return what of a truth goes with an answer, given the answer's JSON text.

    Masks go with answers that have some, and with empty ones, which don't tell their kind: finding
    nothing is missing all of them. A truth above `MOST_TRUTH_BYTES` says so instead.
    """
    told: dict[str, Any] = {"name": truth.name, "classes": truth.classes, "labels": truth.labels}
    told = {name: value for name, value in told.items() if value}
    if truth.texts is not None:
        told["texts"] = truth.texts
    if truth.values is not None:
        told["values"] = truth.values.ravel()[:16].tolist()
    if truth.objects is not None:
        with_masks = b'"instancesegment"' in answer or b'"boundingbox"' not in answer
        told["objects"] = _objects(truth.objects, with_masks=with_masks)
    return told


@dataclass(frozen=True, slots=True)
class Placing:
    """How a map lies on its picture: over what the steps before the model made of that."""

    #: how the steps resize, cut and pad it
    steps: tuple[Step, ...] = ()
    #: why nobody knows what of the picture the model sees, '' where that is known
    unknown: str = ""

    @classmethod
    def of(cls, pipeline: Pipeline) -> "Placing":
        """Return it of what happens before the model."""
        if pipeline.code_before:
            return cls(unknown="inline code makes what the model sees of a picture")
        ports = [[each.step for each in port.steps if each.step] for port in pipeline.before]
        steps = framing_of(ports)
        if steps is None:
            return cls(unknown="the model's inputs show different parts of a picture")
        return cls(steps)

    def frame(self, size: tuple[int, int], answered: tuple[int, int]) -> Frame:
        """Return how a picture of a size lies in the input that an answer is over.

        Raises ValueError where nobody knows, unless the answer has the picture's own size.
        """
        if not self.unknown:
            return frame_of(self.steps, size)
        if size != answered:
            raise ValueError(f"a map of {size} pixels is true, {answered} answered: {self.unknown}")
        return frame_of((), size)


WHOLE = Placing()


def judged(features: Sequence[Feature], truth: Truth, placing: Placing = WHOLE) -> dict[str, Any]:
    """Return what metrics need of an answer and a truth that are pictures; nothing of others."""
    if truth.picture is None:
        return {}
    for feature in features:
        try:
            if feature.get("type") == "semanticsegment":
                return {"pixels": _pixels(feature, _map_of(truth.picture), placing)}
            if feature.get("type") == "image":
                body = base64.b64decode(feature["data"])
                return {"picture": _likeness(_picture_of(body), _picture_of(truth.picture))}
        except (AccuracyError, LookupError, TypeError, ValueError, OSError) as error:
            return {"error": str(error) or type(error).__name__}
    return {}


def _objects(objects: Objects, *, with_masks: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "boxes": np.round(objects.boxes, 3).tolist(),
        "classes": objects.classes.tolist(),
        "crowd": objects.crowd.astype(int).tolist(),
        "areas": np.round(objects.areas, 3).tolist(),
        "size": [objects.height, objects.width],
    }
    if with_masks:
        told["segmentations"] = list(objects.segmentations)
    return told


def _pixels(feature: Feature, labels: npt.NDArray[np.int64], placing: Placing) -> dict[str, Any]:
    """Count pixels: rows of label, predicted class and how many; `ignored` ones are apart.

    The label's size is the picture's. A map of another size is placed on that, and its own said in
    `resized`; `unseen` says how many labelled pixels were cut off before the model.
    """
    seen = map_of_runs(feature["runs"], feature["size"])
    height, width = labels.shape
    frame = placing.frame((height, width), (seen.shape[0], seen.shape[1]))
    found, is_seen = placed(seen, frame, (height, width))
    labelled = labels != IGNORED
    kept = labelled & is_seen
    unseen = int(labelled.sum() - kept.sum())
    if unseen and not kept.any():
        raise ValueError("no labelled pixel of the picture was seen by the model")
    pairs, counts = np.unique(
        np.stack([labels[kept], found[kept]], axis=1), axis=0, return_counts=True
    )
    rows = np.concatenate([pairs, counts[:, None]], axis=1)
    told: dict[str, Any] = {"counts": rows.tolist(), "ignored": int((~labelled).sum())}
    if seen.shape != labels.shape:
        told["resized"] = list(seen.shape)
    return {**told, "unseen": unseen} if unseen else told


def _likeness(found: npt.NDArray[np.uint8], true: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """Return PSNR and SSIM of pictures of one size; a grey one is compared as colours with colours.

    Raises AccuracyError where the sizes differ. One too small for SSIM has none, and says why.
    """
    if found.shape[:2] != true.shape[:2]:
        raise ShapesDiffer("pictures [height, width]", found.shape[:2], true.shape[:2])
    if found.ndim != true.ndim:
        found, true = (_coloured(each) for each in (found, true))
    value = psnr(found, true, PEAK)
    # Equal pictures have no finite PSNR; JSON has no infinity.
    same = bool(np.array_equal(found, true))
    told = {"psnr": None if same else value, "equal": same}
    try:
        return {**told, "ssim": ssim(found, true, PEAK)}
    except Unusable as error:
        return {**told, "ssim": None, "no_ssim": str(error)}


def _coloured(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.repeat(pixels[..., None], 3, axis=2) if pixels.ndim == 2 else pixels


def _picture_of(body: bytes) -> npt.NDArray[np.uint8]:
    image = _opened(body)
    return np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"), np.uint8)


def _map_of(body: bytes) -> npt.NDArray[np.int64]:
    """Return the classes of a map; of a palette's picture its indices."""
    image = _opened(body)
    if image.mode not in ("P", "L", "I", "I;16", "1"):
        raise ValueError(f"a map of classes has one number a pixel, this is {image.mode}")
    return np.asarray(image, np.int64)


def _opened(body: bytes) -> Any:
    require_pillow("judging")
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(body))
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from error
    # Only the head is read so far: a small file may say that it has any number of pixels.
    require_pixels(image.height, image.width)
    return image
