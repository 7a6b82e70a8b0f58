"""Segmentation maps and pictures: what the agent counted of each, over all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlscope.accuracy import Outcome, PixelCounts, mean_iou_of_images
from mlscope.accuracy.outcome import mean
from mlscope.counts import many
from services.analyzer.frames import Aim
from services.analyzer.judging.judgement import Judgement, unjudged, warned
from services.analyzer.predictions import Prediction

IMAGE_DRAWS = 1000
"""Draws of images for mean IoU, which are cheap."""

MOST_CLASSES = 1024
"""Classes of a map: each image has a table of them squared."""


def pixels(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:  # noqa: ARG001
    """Return mean IoU and pixel accuracy of segmentation maps."""
    told = [answer.judged["pixels"] for answer in answers if "pixels" in answer.judged]
    failed = [str(answer.judged["error"]) for answer in answers if "error" in answer.judged]
    failed += [_oddity(each) for each in told if _oddity(each)]
    told = [each for each in told if not _oddity(each)]
    if not told:
        return [unjudged("mIoU", failed)] if failed else []
    classes = 1 + max((each for one in told for each in _classes(one)), default=0)
    images = []
    for each in told:
        counts = np.zeros((classes, classes), np.int64)
        for label, seen, pixels in each["counts"]:
            counts[label, seen] += pixels
        images.append(PixelCounts(counts, 1, each["ignored"]))
    both = mean_iou_of_images(images, IMAGE_DRAWS)
    said = [_cut(_stretched(warned(each, failed), told), told) for each in both]
    return [Judgement(each, "labelled pixels", judged=len(images)) for each in said]


def _classes(told: Mapping[str, Any]) -> list[int]:
    return [int(place) for row in told["counts"] for place in row[:2]]


def _oddity(told: Mapping[str, Any]) -> str:
    """Return why a picture's counts can't be judged, '' where they can."""
    wrong = [each for each in _classes(told) if not 0 <= each < MOST_CLASSES]
    return f"a class of a map: {wrong[0]}, allowed: 0 to {MOST_CLASSES - 1}" if wrong else ""


def _stretched(outcome: Outcome, told: Sequence[Mapping[str, Any]]) -> Outcome:
    """Say how many of the answered maps had another size than their label."""
    count = sum("resized" in each for each in told)
    if not count:
        return outcome
    outcome = replace(outcome, method=f"{outcome.method}, maps stretched to the label's size")
    return outcome.warning(f"{count} maps were resized to their label's size by nearest neighbour")


def _cut(outcome: Outcome, told: Sequence[Mapping[str, Any]]) -> Outcome:
    """Say what of the pictures was cut off before the model, and is not judged."""
    unseen = [each["unseen"] for each in told if each.get("unseen")]
    if not unseen:
        return outcome
    seen = sum(row[2] for each in told for row in each["counts"])
    share = sum(unseen) / (sum(unseen) + seen)
    return outcome.warning(
        f"the model saw a part of {many(len(unseen), 'picture')} alone: {share:.1%} of all "
        "labelled pixels were cut off before it and are not judged"
    )


def pictures(answers: Sequence[Prediction], aim: Aim) -> list[Judgement]:  # noqa: ARG001
    """Return PSNR and SSIM of pictures."""
    told = [answer.judged["picture"] for answer in answers if "picture" in answer.judged]
    failed = [str(answer.judged["error"]) for answer in answers if "error" in answer.judged]
    if not told:
        return [unjudged("PSNR", failed)] if failed else []
    decibels = [each["psnr"] for each in told if each["psnr"] is not None]
    same = len(told) - len(decibels)
    caveats = (f"{same} equal pictures have infinite PSNR and are not in the mean",) if same else ()
    psnr = mean("PSNR", decibels, "mean of pictures, peak 255", caveats=caveats, excluded=same)
    alike = [each["ssim"] for each in told if each["ssim"] is not None]
    small = [str(each.get("no_ssim", "")) for each in told if each["ssim"] is None]
    method = "mean of pictures, gaussian window"
    ssim = mean("SSIM", alike, method, excluded=len(small))
    return [
        Judgement(warned(psnr, failed), unit="dB", judged=len(told)),
        Judgement(warned(ssim, [*failed, *small]), judged=len(alike)),
    ]
