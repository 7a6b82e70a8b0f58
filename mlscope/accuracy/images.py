"""How close two images are: mean squared error, PSNR and SSIM.

Images are [height, width] or [height, width, channels]; `peak` is the largest value a pixel can
have (255, or 1.0), never guessed from the data. Super-resolution papers often compare only luma
and leave out a border of `scale` pixels: cut and convert before, and say so.
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
    """Mean of the squared differences, in squared pixel values."""
    one, other = _pair(first, second)
    return float(((one - other) ** 2).mean())


def psnr(first: ArrayLike, second: ArrayLike, peak: float) -> float:
    """Peak signal-to-noise ratio in decibels, 10 log10(peak^2 / MSE); equal images: infinite."""
    _require_peak(peak)
    error = mean_squared_error(first, second)
    return math.inf if error == 0.0 else 10.0 * math.log10(peak * peak / error)


def ssim(first: ArrayLike, second: ArrayLike, peak: float, window: Window = "gaussian") -> float:
    """Structural similarity, -1 to 1 (Wang et al. 2004), mean over channels and windows.

    (2 ux uy + C1)(2 vxy + C2) / ((ux^2 + uy^2 + C1)(vx + vy + C2)), C1 = (0.01 peak)^2,
    C2 = (0.03 peak)^2, in windows wholly inside the image. "gaussian" is the paper's: 11 pixels,
    sigma 1.5, population (co)variances. "uniform" is scikit-image's default: 7 pixels, sample
    (co)variances. Raises Unusable for images smaller than a window.
    """
    _require_peak(peak)
    one, other = _pair(first, second)
    weights, unbiased = _weights(window)
    if min(one.shape[:2]) < weights.size:
        raise Unusable("shortest side", min(one.shape[:2]), f"{weights.size} or more")
    mean_one, mean_other = _blur(one, weights), _blur(other, weights)
    spread_one = unbiased * (_blur(one * one, weights) - mean_one**2)
    spread_other = unbiased * (_blur(other * other, weights) - mean_other**2)
    shared = unbiased * (_blur(one * other, weights) - mean_one * mean_other)
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    above = (2 * mean_one * mean_other + c1) * (2 * shared + c2)
    below = (mean_one**2 + mean_other**2 + c1) * (spread_one + spread_other + c2)
    return float((above / below).mean())


def mean_psnr(predicted: Sequence[ArrayLike], truths: Sequence[ArrayLike], peak: float) -> Outcome:
    """Mean of the images' PSNR in decibels; equal images, infinite, are excluded and counted."""
    values = _each(predicted, truths, lambda one, other: psnr(one, other, peak))
    finite = [value for value in values if math.isfinite(value)]
    same = len(values) - len(finite)
    caveats = (f"{same} equal images have infinite PSNR and are not in the mean",) if same else ()
    return mean(
        "PSNR", finite, f"dB, mean of images, peak {peak:g}", caveats=caveats, excluded=same
    )


def mean_ssim(
    predicted: Sequence[ArrayLike],
    truths: Sequence[ArrayLike],
    peak: float,
    window: Window = "gaussian",
) -> Outcome:
    """Mean of the images' SSIM."""
    values = _each(predicted, truths, lambda one, other: ssim(one, other, peak, window))
    return mean("SSIM", values, f"mean of images, {window} window, peak {peak:g}")


def _each(
    predicted: Sequence[ArrayLike],
    truths: Sequence[ArrayLike],
    metric: Callable[[ArrayLike, ArrayLike], float],
) -> list[float]:
    """Apply the metric to each pair; a NaN's error names the pair."""
    require_same_length("images predicted against true", len(predicted), len(truths))
    values = []
    for sample, (one, other) in enumerate(zip(predicted, truths, strict=True)):
        if not (np.isfinite(one).all() and np.isfinite(other).all()):
            raise NotANumber(sample)
        values.append(metric(one, other))
    return values


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as float64 [height, width, channels]: unsigned bytes would wrap around."""
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.shape != other.shape or one.ndim not in (2, 3) or one.size == 0:
        raise ShapesDiffer("images [height, width(, channels)]", one.shape, other.shape)
    for at, image in enumerate((one, other)):
        if not np.isfinite(image).all():
            raise NotANumber(("first", "second")[at])
    return one.reshape(*one.shape[:2], -1), other.reshape(*other.shape[:2], -1)


def _require_peak(peak: float) -> None:
    if not (math.isfinite(peak) and peak > 0.0):
        raise Unusable("peak", peak, "above 0")


def _weights(window: Window) -> tuple[NDArray[np.float64], float]:
    """One side's weights, which sum to 1, and what makes a window's variance unbiased."""
    if window == "uniform":
        return np.full(7, 1 / 7), 49 / 48
    if window != "gaussian":
        raise Unusable("window", window, "gaussian or uniform")
    weights = np.exp(-0.5 * (np.arange(-5, 6) / 1.5) ** 2)
    return weights / weights.sum(), 1.0


def _blur(image: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted mean of each window wholly inside: a side shrinks by the window less 1."""
    size = weights.size
    rows, columns = image.shape[0] - size + 1, image.shape[1] - size + 1
    down = sum(weight * image[at : at + rows] for at, weight in enumerate(weights))
    across = sum(weight * down[:, at : at + columns] for at, weight in enumerate(weights))
    return np.asarray(across, np.float64)
