"""Similarity of two images: mean squared error, PSNR and SSIM. Pure.

Images are [height, width] or [height, width, channels]; `peak` is the largest possible value of a
pixel (255, or 1.0), never guessed from the data. Super-resolution papers often compare luma alone
and leave out a border of `scale` pixels: convert and crop before.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlscope.accuracy.errors import NotANumber, ShapesDiffer, Unusable
from mlscope.accuracy.outcome import Outcome, mean, require_same_length

Window = Literal["gaussian", "uniform"]


def mean_squared_error(first: ArrayLike, second: ArrayLike) -> float:
    """Return the mean of the squared differences, in squared pixel values.

    Raises ShapesDiffer, NotANumber.
    """
    first_pixels, second_pixels = _pair(first, second)
    return float(((first_pixels - second_pixels) ** 2).mean())


def psnr(first: ArrayLike, second: ArrayLike, peak: float) -> float:
    """Return the peak signal-to-noise ratio in decibels, 10 log10(peak^2 / MSE).

    It is infinite for a `first` image equal to the `second`; `peak` is the largest possible pixel
    value. Raises ShapesDiffer, NotANumber, Unusable.
    """
    _require_peak(peak)
    error = mean_squared_error(first, second)
    return math.inf if error == 0.0 else 10.0 * math.log10(peak * peak / error)


def ssim(first: ArrayLike, second: ArrayLike, peak: float, window: Window = "gaussian") -> float:
    """Return the structural similarity of `first` and `second`, -1 to 1 (Wang et al. 2004).

    The mean over channels and windows of (2 ux uy + C1)(2 vxy + C2) / ((ux^2 + uy^2 + C1)(vx + vy +
    C2)), with C1 = (0.01 peak)^2 and C2 = (0.03 peak)^2, in windows inside the image; `peak` is the
    largest possible pixel value. The `window` "gaussian" is the paper's: 11 pixels, sigma 1.5,
    population (co)variances. "uniform" is scikit-image's default: 7 pixels, sample (co)variances.
    Raises ShapesDiffer, NotANumber, and Unusable for images smaller than a window.
    """
    _require_peak(peak)
    first_pixels, second_pixels = _pair(first, second)
    if window == "uniform":
        weights, unbiased = np.full(7, 1 / 7), 49 / 48
    elif window == "gaussian":
        weights, unbiased = np.exp(-0.5 * (np.arange(-5, 6) / 1.5) ** 2), 1.0
        weights /= weights.sum()
    else:
        raise Unusable("window", window, "gaussian or uniform")
    if min(first_pixels.shape[:2]) < weights.size:
        raise Unusable("shortest side", min(first_pixels.shape[:2]), f"{weights.size} or more")
    first_mean, second_mean = _blur(first_pixels, weights), _blur(second_pixels, weights)
    first_variance = unbiased * (_blur(first_pixels * first_pixels, weights) - first_mean**2)
    second_variance = unbiased * (_blur(second_pixels * second_pixels, weights) - second_mean**2)
    covariance = unbiased * (
        _blur(first_pixels * second_pixels, weights) - first_mean * second_mean
    )
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    above = (2 * first_mean * second_mean + c1) * (2 * covariance + c2)
    below = (first_mean**2 + second_mean**2 + c1) * (first_variance + second_variance + c2)
    return float((above / below).mean())


def mean_psnr(predicted: Sequence[ArrayLike], truths: Sequence[ArrayLike], peak: float) -> Outcome:
    """Return the mean of the images' PSNR in decibels, with a bootstrap interval over images.

    `predicted` and `truths` have one image each of one shape, [height, width(, channels)], with
    values up to `peak`. Equal images have an infinite PSNR: they are excluded and counted in a
    caveat. Raises ShapesDiffer, NotANumber, Unusable.
    """
    values = _metric_of_images(predicted, truths, lambda image, truth: psnr(image, truth, peak))
    finite = [value for value in values if math.isfinite(value)]
    same = len(values) - len(finite)
    caveats = (
        (f"{same} equal images have infinite PSNR and are left out of the mean",) if same else ()
    )
    return mean(
        "PSNR", finite, f"dB, mean of images, peak {peak:g}", caveats=caveats, excluded=same
    )


def mean_ssim(
    predicted: Sequence[ArrayLike],
    truths: Sequence[ArrayLike],
    peak: float,
    window: Window = "gaussian",
) -> Outcome:
    """Return the mean of the images' SSIM, -1 to 1, with a bootstrap interval over images.

    `predicted` and `truths` have one image each of one shape, [height, width(, channels)], with
    values up to `peak`; `window` is as in `ssim`, whose formula holds for each pair. Raises
    ShapesDiffer, NotANumber, Unusable.
    """
    values = _metric_of_images(
        predicted, truths, lambda image, truth: ssim(image, truth, peak, window)
    )
    return mean("SSIM", values, f"mean of images, {window} window, peak {peak:g}")


def _metric_of_images(
    predicted: Sequence[ArrayLike],
    truths: Sequence[ArrayLike],
    metric: Callable[[ArrayLike, ArrayLike], float],
) -> list[float]:
    """Return the metric of each pair. Raises NotANumber, naming the pair."""
    require_same_length("images predicted against true", len(predicted), len(truths))
    values = []
    for sample, (first, second) in enumerate(zip(predicted, truths, strict=True)):
        if not (np.isfinite(first).all() and np.isfinite(second).all()):
            raise NotANumber(sample)
        values.append(metric(first, second))
    return values


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both as float64 [height, width, channels], as differences of bytes would overflow."""
    first_pixels, second_pixels = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if (
        first_pixels.shape != second_pixels.shape
        or first_pixels.ndim not in (2, 3)
        or first_pixels.size == 0
    ):
        raise ShapesDiffer(
            "images [height, width(, channels)]", first_pixels.shape, second_pixels.shape
        )
    for name, image in (("first", first_pixels), ("second", second_pixels)):
        if not np.isfinite(image).all():
            raise NotANumber(name)
    return first_pixels.reshape(*first_pixels.shape[:2], -1), second_pixels.reshape(
        *second_pixels.shape[:2], -1
    )


def _require_peak(peak: float) -> None:
    if not (math.isfinite(peak) and peak > 0.0):
        raise Unusable("peak", peak, "above 0")


def _blur(image: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted mean of each window inside the image; sides shrink by size - 1."""
    size = weights.size
    rows, columns = image.shape[0] - size + 1, image.shape[1] - size + 1
    down = sum(weight * image[top : top + rows] for top, weight in enumerate(weights))
    across = sum(weight * down[:, start : start + columns] for start, weight in enumerate(weights))
    return np.asarray(across, np.float64)
