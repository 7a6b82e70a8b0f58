"""Segmentation maps and generated images: the agent's counts of each, over all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlscope.accuracy import Outcome, PixelCounts, mean_iou_of_images
from mlscope.accuracy.outcome import mean
from mlscope.counts import many
from services.analyzer.frames.evaluation import ScoringContext
from services.analyzer.frames.predictions import Prediction
from services.analyzer.scoring.judgement import Judgement, unjudged, warned

IMAGE_DRAWS = 1000
"""Bootstrap draws of images for mean IoU, which are cheap."""

MOST_CLASSES = 1024
"""The most classes of a map: each image has a table of classes x classes."""


def pixels(answers: Sequence[Prediction], _: ScoringContext) -> list[Judgement]:
    """Return mean IoU and pixel accuracy of segmentation maps."""
    maps = []
    errors = _errors(answers)
    for counted in (answer.judged["pixels"] for answer in answers if "pixels" in answer.judged):
        wrong = [number for number in _classes(counted) if not 0 <= number < MOST_CLASSES]
        if wrong:
            errors.append(f"a class of a map is {wrong[0]}, allowed: 0 to {MOST_CLASSES - 1}")
        else:
            maps.append(counted)
    if not maps:
        return [unjudged("mIoU", errors)] if errors else []
    size = 1 + max((number for counted in maps for number in _classes(counted)), default=0)
    images = []
    for counted in maps:
        counts = np.zeros((size, size), np.int64)
        for label, answered, count in counted["counts"]:
            counts[label, answered] += count
        images.append(PixelCounts(counts, 1, counted["ignored"]))
    return [
        Judgement(
            _with_map_warnings(warned(outcome, errors), maps), "labelled pixels", judged=len(images)
        )
        for outcome in mean_iou_of_images(images, IMAGE_DRAWS)
    ]


def _errors(answers: Sequence[Prediction]) -> list[str]:
    return [str(answer.judged["error"]) for answer in answers if "error" in answer.judged]


def _classes(counted: Mapping[str, Any]) -> list[int]:
    return [int(number) for row in counted["counts"] for number in row[:2]]


def _with_map_warnings(outcome: Outcome, maps: Sequence[Mapping[str, Any]]) -> Outcome:
    """Add caveats for maps of another size than their label, and for images cropped before."""
    resized = sum("resized" in counted for counted in maps)
    if resized:
        outcome = replace(outcome, method=f"{outcome.method}, maps stretched to the label's size")
        outcome = outcome.warning(
            f"{many(resized, 'map')} resized to the size of the label by nearest neighbour"
        )
    unseen_pixels = [counted["unseen"] for counted in maps if counted.get("unseen")]
    if not unseen_pixels:
        return outcome
    seen_pixels = sum(row[2] for counted in maps for row in counted["counts"])
    share = sum(unseen_pixels) / (sum(unseen_pixels) + seen_pixels)
    return outcome.warning(
        f"the model saw only a part of {many(len(unseen_pixels), 'picture')}: {share:.1%} of all "
        "labelled pixels were cropped away before the model and are not judged"
    )


def pictures(answers: Sequence[Prediction], _: ScoringContext) -> list[Judgement]:
    """Return PSNR (dB) and SSIM of generated images."""
    judged = [answer.judged["picture"] for answer in answers if "picture" in answer.judged]
    errors = _errors(answers)
    if not judged:
        return [unjudged("PSNR", errors)] if errors else []
    decibels = [picture["psnr"] for picture in judged if picture["psnr"] is not None]
    equal = len(judged) - len(decibels)
    caveats = (
        (f"{many(equal, 'equal picture')} left out of the mean: infinite PSNR",) if equal else ()
    )
    psnr = mean("PSNR", decibels, "mean of pictures, peak 255", caveats=caveats, excluded=equal)
    similarities = [picture["ssim"] for picture in judged if picture["ssim"] is not None]
    too_small = [str(picture.get("no_ssim", "")) for picture in judged if picture["ssim"] is None]
    method = "mean of pictures, gaussian window"
    ssim = mean("SSIM", similarities, method, excluded=len(too_small))
    return [
        Judgement(warned(psnr, errors), unit="dB", judged=len(judged)),
        Judgement(warned(ssim, [*errors, *too_small]), judged=len(similarities)),
    ]
