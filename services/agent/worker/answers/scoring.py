"""The ground truth kept with an answer, and the scores of images and maps of classes.

Small ground truth is kept with the answer: labels, texts, boxes. Two images or maps of classes for
each sample are too large to keep: the numbers that a metric needs are computed here.
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
from mlscope.datasets.truth import Truth
from mlscope.image_geometry import Frame, frame_of, geometry_steps_of, map_to_image
from schemas.manifest import Step
from services.agent.steps.parameters import require_pillow
from services.agent.worker.queries.pipeline import Pipeline

Feature = Mapping[str, Any]
PEAK = 255.0
"""The largest value of a pixel: images are compared as bytes."""

IGNORED = 255
"""The class of unlabelled pixels in the maps of VOC and Cityscapes."""


def truth_fields(truth: Truth, answer: bytes) -> dict[str, Any]:
    """Return the fields of a ground truth to keep with an `answer`, which is JSON text.

    Masks are kept with answers that have masks, and with empty answers, whose kind is unknown.
    """
    names = {"name": truth.name, "classes": truth.classes, "labels": truth.labels}
    fields: dict[str, Any] = {name: value for name, value in names.items() if value}
    if truth.texts is not None:
        fields["texts"] = truth.texts
    if truth.values is not None:
        fields["values"] = truth.values.ravel()[:16].tolist()
    if truth.objects is not None:
        objects = truth.objects
        fields["objects"] = {
            "boxes": np.round(objects.boxes, 3).tolist(),
            "classes": objects.classes.tolist(),
            "crowd": objects.crowd.astype(int).tolist(),
            "areas": np.round(objects.areas, 3).tolist(),
            "size": [objects.height, objects.width],
        }
        if b'"instancesegment"' in answer or b'"boundingbox"' not in answer:
            fields["objects"]["segmentations"] = list(objects.segmentations)
    return fields


@dataclass(frozen=True, slots=True)
class ImagePlacement:
    """How a map of classes lies on its image, after the steps before the model."""

    #: the steps that resize, crop and pad the image
    steps: tuple[Step, ...] = ()
    #: why it is unknown which part of the image the model sees, '' where it is known
    unknown: str = ""

    @classmethod
    def of(cls, pipeline: Pipeline) -> "ImagePlacement":
        """Return the placement by the steps of a pipeline."""
        if pipeline.code_before:
            return cls(unknown="inline code prepares the image for the model")
        ports = [
            [operator.step for operator in port.steps if operator.step] for port in pipeline.before
        ]
        steps = geometry_steps_of(ports)
        if steps is None:
            return cls(unknown="the model's inputs show different parts of an image")
        return cls(steps)

    def frame(self, size: tuple[int, int], answered: tuple[int, int]) -> Frame:
        """Return how an image of a `size` lies in the model's input; both are [height, width].

        Raises ValueError where that is unknown, unless the `answered` map has the image's own size.
        """
        if not self.unknown:
            return frame_of(self.steps, size)
        if size != answered:
            raise ValueError(
                f"the true map has {size} pixels, the answered one {answered}: {self.unknown}"
            )
        return frame_of((), size)


WHOLE_IMAGE = ImagePlacement()


def image_scores(
    features: Sequence[Feature], truth: Truth, placement: ImagePlacement = WHOLE_IMAGE
) -> dict[str, Any]:
    """Return the numbers that metrics need of images and maps of classes; none for other answers.

    `features` are the answer, `truth` its ground truth, `placement` how a map lies on its image.
    """
    picture_features = [f for f in features if f.get("type") in ("semanticsegment", "image")]
    if truth.picture is None or not picture_features:
        return {}
    feature = picture_features[0]
    try:
        if feature["type"] == "semanticsegment":
            return {"pixels": pixel_counts(feature, map_of(truth.picture), placement)}
        body = base64.b64decode(feature["data"])
        return {"picture": similarity(image_of(body), image_of(truth.picture))}
    except (AccuracyError, LookupError, TypeError, ValueError, OSError) as error:
        return {"error": str(error) or type(error).__name__}


def pixel_counts(
    feature: Feature, labels: npt.NDArray[np.int64], placement: ImagePlacement
) -> dict[str, Any]:
    """Count pixels: `counts` are rows of label, predicted class, number; `ignored` are unlabelled.

    `feature` has the predicted map, and `labels` have the image's size. A map of another size is
    placed on the image by its `placement`, and `resized` is its own size; `unseen` counts the
    labelled pixels that were cropped before the model. Raises AccuracyError, ValueError.
    """
    predicted = map_of_runs(feature["runs"], feature["size"])
    height, width = labels.shape
    frame = placement.frame((height, width), (predicted.shape[0], predicted.shape[1]))
    classes, is_visible = map_to_image(predicted, frame, (height, width))
    is_labelled = labels != IGNORED
    is_counted = is_labelled & is_visible
    unseen = int(is_labelled.sum() - is_counted.sum())
    if unseen and not is_counted.any():
        raise ValueError("the model saw no labelled pixel of the image")
    pairs, counts = np.unique(
        np.stack([labels[is_counted], classes[is_counted]], axis=1), axis=0, return_counts=True
    )
    rows = np.concatenate([pairs, counts[:, None]], axis=1)
    fields: dict[str, Any] = {"counts": rows.tolist(), "ignored": int((~is_labelled).sum())}
    if predicted.shape != labels.shape:
        fields["resized"] = list(predicted.shape)
    return {**fields, "unseen": unseen} if unseen else fields


def similarity(predicted: npt.NDArray[np.uint8], true: npt.NDArray[np.uint8]) -> dict[str, Any]:
    """Return PSNR and SSIM of images of one size; a grey one is compared as colours with colours.

    `no_ssim` says why an image that is too small has no SSIM. Raises AccuracyError where the sizes
    differ.
    """
    if predicted.shape[:2] != true.shape[:2]:
        raise ShapesDiffer("pictures [height, width]", predicted.shape[:2], true.shape[:2])
    if predicted.ndim != true.ndim:
        predicted, true = (
            np.repeat(pixels[..., None], 3, axis=2) if pixels.ndim == 2 else pixels
            for pixels in (predicted, true)
        )
    value = psnr(predicted, true, PEAK)
    # Equal images have no finite PSNR; JSON has no infinity.
    is_equal = bool(np.array_equal(predicted, true))
    scores = {"psnr": None if is_equal else value, "equal": is_equal}
    try:
        return {**scores, "ssim": ssim(predicted, true, PEAK)}
    except Unusable as error:
        return {**scores, "ssim": None, "no_ssim": str(error)}


def image_of(body: bytes) -> npt.NDArray[np.uint8]:
    """Return the pixels in an image's file, (h, w) of a grey one and (h, w, 3) of others."""
    image = _open_image(body)
    return np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"), np.uint8)


def map_of(body: bytes) -> npt.NDArray[np.int64]:
    """Return the classes in the file of a map; of an image with a palette its indices.

    Raises ValueError for an image of colours.
    """
    image = _open_image(body)
    if image.mode not in ("P", "L", "I", "I;16", "1"):
        raise ValueError(
            f"a map of classes has one number per pixel; this one has mode {image.mode}"
        )
    return np.asarray(image, np.int64)


def _open_image(body: bytes) -> Any:
    require_pillow("scoring")
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(body))
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from error
    # Only the header is read so far: a small file may claim any number of pixels.
    require_pixels(image.height, image.width)
    return image
