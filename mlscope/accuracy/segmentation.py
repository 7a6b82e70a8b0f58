"""Mean intersection over union and pixel accuracy of semantic segmentation. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.accuracy.errors import ShapesDiffer, UnknownLabel, Unusable
from mlscope.accuracy.outcome import Outcome
from mlscope.accuracy.resampling import image_interval

NO_INTERVAL = "no interval: pixels of an image are not independent"


@dataclass(frozen=True)
class PixelCounts:
    """Number of pixels by label (row) and predicted class (column), over all images so far."""

    #: integers, [classes, classes]
    counts: NDArray[np.int64]
    images: int = 0
    #: pixels with the ignore label
    excluded: int = 0

    @classmethod
    def none(cls, classes: int) -> "PixelCounts":
        """Return the counts of no image."""
        return cls(np.zeros((classes, classes), np.int64))

    def __add__(self, more_counts: "PixelCounts") -> "PixelCounts":
        """Return the counts of both sets of images. Raises ShapesDiffer."""
        if self.counts.shape != more_counts.counts.shape:
            raise ShapesDiffer("classes", len(self.counts), len(more_counts.counts))
        images, excluded = self.images + more_counts.images, self.excluded + more_counts.excluded
        return PixelCounts(self.counts + more_counts.counts, images, excluded)


def count_pixels(
    predicted: ArrayLike, labels: ArrayLike, classes: int, ignore: int | None = 255
) -> PixelCounts:
    """Count the pixels of one image by label and predicted class.

    `predicted` and `labels` are maps [height, width] of integers from 0 to `classes` - 1. Pixels
    labelled `ignore` (255 in VOC and Cityscapes) are left out, whatever was predicted. Raises
    ShapesDiffer, or UnknownLabel, naming the pixel by its flat index, for any other value.
    """
    predicted_classes, true_classes = np.asarray(predicted), np.asarray(labels)
    if predicted_classes.shape != true_classes.shape:
        raise ShapesDiffer(
            "predicted pixels against labels", predicted_classes.shape, true_classes.shape
        )
    predicted_classes, true_classes = predicted_classes.ravel(), true_classes.ravel()
    labelled = (
        np.flatnonzero(true_classes != ignore)
        if ignore is not None
        else np.arange(true_classes.size)
    )
    for values in (true_classes[labelled], predicted_classes[labelled]):
        wrong = (values < 0) | (values >= classes) | (values != np.floor(values))
        if wrong.any():
            first = int(np.argmax(wrong))
            raise UnknownLabel(f"pixel {labelled[first]}", int(values[first]), classes)
    cells = true_classes[labelled].astype(np.int64) * classes + predicted_classes[labelled].astype(
        np.int64
    )
    counts = np.bincount(cells, minlength=classes * classes).reshape(classes, classes)
    return PixelCounts(counts, 1, true_classes.size - labelled.size)


def class_ious(pixels: PixelCounts) -> list[float | None]:
    """Return TP / (TP + FP + FN) of each class over all images; None for a class without pixels."""
    hits = np.diagonal(pixels.counts)
    union = pixels.counts.sum(axis=0) + pixels.counts.sum(axis=1) - hits
    return [float(hit / total) if total else None for hit, total in zip(hits, union, strict=True)]


def mean_iou(pixels: PixelCounts) -> Outcome:
    """Return the mean of `class_ious`, 0 to 1, over the classes that have pixels.

    Pixels of all images are counted together (Everingham et al. 2010, PASCAL VOC; Long et al.
    2015), not averaged by image. `n` and `excluded` are pixels.
    """
    ious = [iou for iou in class_ious(pixels) if iou is not None]
    value = sum(ious) / len(ious) if ious else None
    absent = len(pixels.counts) - len(ious)
    caveats = (f"{absent} classes have no pixels and are left out of the mean",) if absent else ()
    return _outcome("mIoU", value, pixels, caveats)


def mean_iou_of_images(images: Sequence[PixelCounts], draws: int) -> tuple[Outcome, Outcome]:
    """Return mean IoU and pixel accuracy over `images`, each with a bootstrap interval.

    The values are those of `mean_iou` and `pixel_accuracy` of all images together; the interval is
    the percentile bootstrap over images with `draws` draws. Raises Unusable without images.
    """
    if not images:
        raise Unusable("images", 0, "1 or more")
    all_counts = sum(images[1:], images[0])
    tables = [image.counts for image in images]
    hits = np.stack([np.diagonal(table) for table in tables])
    union = np.stack([table.sum(axis=0) + table.sum(axis=1) for table in tables]) - hits
    pixels = np.array([table.sum() for table in tables])

    def numbers_of(times: NDArray[np.int64]) -> list[float]:
        shared, either, all_pixels = times @ hits, times @ union, int(times @ pixels)
        ious = shared[either > 0] / either[either > 0]
        right = shared.sum() / all_pixels if all_pixels else np.nan
        return [float(ious.mean()) if ious.size else np.nan, float(right)]

    intervals = image_interval(numbers_of, len(images), draws)
    outcomes = mean_iou(all_counts), pixel_accuracy(all_counts)
    if intervals is None:
        return outcomes
    first, second = (
        replace(
            outcome,
            interval=interval,
            caveats=tuple(caveat for caveat in outcome.caveats if caveat != NO_INTERVAL),
        )
        for outcome, interval in zip(outcomes, intervals, strict=True)
    )
    return first, second


def pixel_accuracy(pixels: PixelCounts) -> Outcome:
    """Return the share of pixels predicted as labelled, 0 to 1; `n` and `excluded` are pixels."""
    n = int(pixels.counts.sum())
    value = float(np.trace(pixels.counts)) / n if n else None
    return _outcome("pixel accuracy", value, pixels, ())


def _outcome(
    name: str, value: float | None, pixels: PixelCounts, caveats: tuple[str, ...]
) -> Outcome:
    n = int(pixels.counts.sum())
    method = f"pixels of {pixels.images} images together"
    no_interval = NO_INTERVAL if n else "no labelled pixel"
    return Outcome(name, value, n, None, method, (*caveats, no_interval), pixels.excluded)
