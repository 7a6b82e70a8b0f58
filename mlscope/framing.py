"""How a picture lies in what a model sees of it: resized, cut, padded; and answers placed back.

Along each side a place of the picture and one of the model's input are an affine map of each
other: input = scale x picture + offset, in pixels, the first pixel from 0 to 1. Scale and offset
are fractions: a pixel is where the steps put it, not about there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.manifest import Step

Size = tuple[int, int]
"""Height and width."""

FRAMING = frozenset({"resize", "crop", "pad"})
"""The steps that change how a picture lies in the input."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an input of `length` pixels: where the picture's places are on it."""

    length: int
    scale: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)

    def stretched(self, length: int) -> "Side":
        """Return it resized to a length."""
        ratio = Fraction(length, self.length)
        return Side(length, self.scale * ratio, self.offset * ratio)

    def moved(self, by: int, length: int) -> "Side":
        """Return it padded by so many pixels at its beginning (cut: negative), to a length."""
        return Side(length, self.scale, self.offset + by)

    def sources(self, pixels: int, answered: int) -> npt.NDArray[np.int64]:
        """Return for each of the picture's pixels the one of an answer its centre lies in.

        The answer's `answered` pixels lie over the whole side. Below 0 and from `answered` on are
        pixels that the model did not see. [pixels]
        """
        ratio = Fraction(answered, self.length)
        scale, offset = self.scale * ratio, self.offset * ratio
        # Whole numbers, of any size: (2 at + 1) / 2 x scale + offset, rounded down.
        below = 2 * scale.denominator * offset.denominator
        slope = scale.numerator * offset.denominator
        start = slope + 2 * scale.denominator * offset.numerator
        return np.array([(2 * at * slope + start) // below for at in range(pixels)], np.int64)

    def places(self, found: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return places on the input as places on the picture."""
        return (found - float(self.offset)) / float(self.scale)


Frame = tuple[Side, Side]
"""Height and width of an input."""


def framing_of(inputs: Iterable[Sequence[Step]]) -> tuple[Step, ...] | None:
    """Return the steps that lay a picture into a model's inputs, in order; () of none.

    None where two inputs show different parts of it.
    """
    found = [tuple(step for step in steps if step.operator in FRAMING) for steps in inputs]
    told = [steps for steps in found if steps]
    return None if any(steps != told[0] for steps in told) else (told[0] if told else ())


def frame_of(steps: Iterable[Step], size: Size) -> Frame:
    """Return how a picture of a size lies in the input that these steps make of it.

    Raises KeyError, TypeError, ValueError for parameters that the steps themselves refuse.
    """
    frame: Frame = (Side(size[0]), Side(size[1]))
    for step in steps:
        have = frame[0].length, frame[1].length
        if step.operator == "resize":
            want = _resized(have, step.parameters)
            frame = frame[0].stretched(want[0]), frame[1].stretched(want[1])
        elif step.operator in ("crop", "pad"):
            want, before = (_cut if step.operator == "crop" else _padded)(have, step.parameters)
            frame = frame[0].moved(before[0], want[0]), frame[1].moved(before[1], want[1])
    return frame


def placed(
    pixels: npt.NDArray[Any], frame: Frame, size: Size
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return an answer's pixels [h, w] over an input as the picture's, and which it knows.

    Each pixel of the picture has the answer's its centre lies in; those the model did not see have
    some value, and are False in the second.
    """
    rows, columns = (
        side.sources(want, have) for side, want, have in zip(frame, size, pixels.shape, strict=True)
    )
    seen = ((rows >= 0) & (rows < pixels.shape[0]))[:, None] & (
        (columns >= 0) & (columns < pixels.shape[1])
    )
    at = rows.clip(0, pixels.shape[0] - 1), columns.clip(0, pixels.shape[1] - 1)
    return pixels.take(at[0], axis=0).take(at[1], axis=1), seen


def covering(have: Sequence[int], want: Size) -> Size:
    """Return `have` (height, width) scaled so that it just covers `want`.

    The longer side is cut to whole pixels, as torchvision's Resize does.
    """
    if want[0] * have[1] >= want[1] * have[0]:
        return want[0], max(want[1], want[0] * have[1] // have[0])
    return max(want[0], want[1] * have[0] // have[1]), want[1]


def inside(have: Sequence[int], want: Size) -> Size:
    """Return `have` (height, width) scaled so that it just fits into `want`."""
    scale = min(want[0] / have[0], want[1] / have[1])
    height, width = (max(1, round(side * scale)) for side in have[:2])
    return min(want[0], height), min(want[1], width)


def within(have: Sequence[int], most: int) -> Size:
    """Return `have` (height, width) scaled so that the longer side is `most`."""
    scale = most / max(have[:2])
    return max(1, round(have[0] * scale)), max(1, round(have[1] * scale))


def share(have: Sequence[int], ratio: float) -> Size:
    """Return a share of each side of `have` (height, width)."""
    return max(1, round(have[0] * ratio)), max(1, round(have[1] * ratio))


def cut_before(spare: int, *, centred: bool) -> int:
    """Return what a crop leaves out at the beginning: half to even, as torchvision's CenterCrop."""
    return round(spare / 2) if centred else 0


def padded_before(spare: int, *, centred: bool) -> int:
    """Return how many pixels a border has at the beginning: an odd one is at the end."""
    return spare // 2 if centred else 0


def _resized(have: Size, parameters: Mapping[str, Any]) -> Size:
    want = _dimensions(parameters)
    if want is None:
        return within(have, int(parameters["max_dimension"]))
    if not parameters.get("keep_aspect_ratio"):
        return want
    fit = str(parameters.get("fit", "cover")).lower()
    return inside(have, want) if fit == "inside" else covering(have, want)


def _cut(have: Size, parameters: Mapping[str, Any]) -> tuple[Size, Size]:
    want = _dimensions(parameters) or share(have, float(parameters["ratio"]))
    first, second = (
        -cut_before(side - wanted, centred=_is_centred(parameters))
        for side, wanted in zip(have, want, strict=True)
    )
    return want, (first, second)


def _padded(have: Size, parameters: Mapping[str, Any]) -> tuple[Size, Size]:
    want = _dimensions(parameters)
    if want is None:
        multiple = int(parameters["multiple"])
        want = -(-have[0] // multiple) * multiple, -(-have[1] // multiple) * multiple
    first, second = (
        padded_before(wanted - side, centred=_is_centred(parameters))
        for side, wanted in zip(have, want, strict=True)
    )
    return want, (first, second)


def _is_centred(parameters: Mapping[str, Any]) -> bool:
    return str(parameters.get("method", "center")).lower() == "center"


def _dimensions(parameters: Mapping[str, Any]) -> Size | None:
    """Return (height, width) of one number, [height, width] or [channels, height, width]."""
    value = parameters.get("dimensions")
    if value is None:
        return None
    numbers = value if isinstance(value, list | tuple) else [value, value]
    return int(numbers[-2]), int(numbers[-1])
