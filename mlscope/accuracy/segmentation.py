"""Mean intersection over union and pixel accuracy of semantic segmentation."""

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
    """Pixels of images so far, by label (row) and predicted class (column)."""

    #: whole numbers, [classes, classes]
    counts: NDArray[np.int64]
    images: int = 0
    #: pixels with the ignore label
    excluded: int = 0

    @classmethod
    def none(cls, classes: int) -> "PixelCounts":
        """Start without images."""
        return cls(np.zeros((classes, classes), np.int64))

    def __add__(self, other: "PixelCounts") -> "PixelCounts":
        """Put two sets of images together."""
        if self.counts.shape != other.counts.shape:
            raise ShapesDiffer("classes", len(self.counts), len(other.counts))
        images, excluded = self.images + other.images, self.excluded + other.excluded
        return PixelCounts(self.counts + other.counts, images, excluded)


def count_pixels(
    predicted: ArrayLike, labels: ArrayLike, classes: int, ignore: int | None = 255
) -> PixelCounts:
    """Count one image's pixels [height, width], both maps whole numbers 0 to `classes` - 1.

    Pixels labelled `ignore` (255 in VOC and Cityscapes) are left out, whatever was predicted.
    Raises ShapesDiffer, or UnknownLabel (naming the flat pixel) for any other value.
    """
    seen, true = np.asarray(predicted), np.asarray(labels)
    if seen.shape != true.shape:
        raise ShapesDiffer("predicted pixels against labels", seen.shape, true.shape)
    seen, true = seen.ravel(), true.ravel()
    kept = np.flatnonzero(true != ignore) if ignore is not None else np.arange(true.size)
    for values in (true[kept], seen[kept]):
        wrong = (values < 0) | (values >= classes) | (values != np.floor(values))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise UnknownLabel(f"pixel {kept[at]}", int(values[at]), classes)
    cells = true[kept].astype(np.int64) * classes + seen[kept].astype(np.int64)
    counts = np.bincount(cells, minlength=classes * classes).reshape(classes, classes)
    return PixelCounts(counts, 1, true.size - kept.size)


def class_ious(pixels: PixelCounts) -> list[float | None]:
    """TP / (TP + FP + FN) of each class over all images; None for a class that is nowhere."""
    hits = np.diagonal(pixels.counts)
    union = pixels.counts.sum(axis=0) + pixels.counts.sum(axis=1) - hits
    return [float(hit / whole) if whole else None for hit, whole in zip(hits, union, strict=True)]


def mean_iou(pixels: PixelCounts) -> Outcome:
    """Mean of `class_ious` over the classes that are labelled or predicted anywhere.

    Pixels of all images are counted together (Everingham et al. 2010, PASCAL VOC; Long et al.
    2015), not averaged an image. `n` and `excluded` are pixels.
    """
    found = [iou for iou in class_ious(pixels) if iou is not None]
    value = sum(found) / len(found) if found else None
    absent = len(pixels.counts) - len(found)
    caveats = (f"{absent} classes are nowhere and not in the mean",) if absent else ()
    return _outcome("mIoU", value, pixels, caveats)


def mean_iou_of_images(images: Sequence[PixelCounts], draws: int) -> tuple[Outcome, Outcome]:
    """Mean IoU and pixel accuracy over images, each with an interval: images drawn anew.

    As `mean_iou` and `pixel_accuracy` of all images together; the interval is the percentile
    bootstrap over images, of `draws`. Raises Unusable without images.
    """
    if not images:
        raise Unusable("images", 0, "1 or more")
    whole = sum(images[1:], images[0])
    hits = np.stack([np.diagonal(each.counts) for each in images])
    union = np.stack([each.counts.sum(axis=0) + each.counts.sum(axis=1) for each in images]) - hits
    pixels = np.array([each.counts.sum() for each in images])

    def drawn(times: NDArray[np.int64]) -> list[float]:
        shared, either, all_pixels = times @ hits, times @ union, int(times @ pixels)
        ious = shared[either > 0] / either[either > 0]
        right = shared.sum() / all_pixels if all_pixels else np.nan
        return [float(ious.mean()) if ious.size else np.nan, float(right)]

    intervals = image_interval(drawn, len(images), draws)
    outcomes = mean_iou(whole), pixel_accuracy(whole)
    if intervals is None:
        return outcomes
    first, second = (
        replace(each, interval=interval, caveats=tuple(c for c in each.caveats if c != NO_INTERVAL))
        for each, interval in zip(outcomes, intervals, strict=True)
    )
    return first, second


def pixel_accuracy(pixels: PixelCounts) -> Outcome:
    """Share of pixels predicted as labelled, over all images; `n` and `excluded` are pixels."""
    n = int(pixels.counts.sum())
    value = float(np.trace(pixels.counts)) / n if n else None
    return _outcome("pixel accuracy", value, pixels, ())


def _outcome(
    name: str, value: float | None, pixels: PixelCounts, caveats: tuple[str, ...]
) -> Outcome:
    n = int(pixels.counts.sum())
    method = f"pixels of {pixels.images} images together"
    why = (NO_INTERVAL,) if n else ("no labelled pixel",)
    return Outcome(name, value, n, None, method, (*caveats, *why), pixels.excluded)
