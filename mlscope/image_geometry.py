"""The geometry of an image in a model's input (resized, cropped, padded), and its inverse. Pure.

Along each side, positions in the image and in the model's input are related by an affine map:
input = scale x image + offset, in pixels; the first pixel extends from 0 to 1. Scale and offset
are fractions, so that positions are exact.
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

GEOMETRY_OPERATORS = frozenset({"resize", "crop", "pad"})
"""The operators that change the geometry of an image in the input."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an input of `length` pixels, with the affine map from the image to it."""

    length: int
    scale: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)

    def stretched(self, length: int) -> "Side":
        """Return this side resized to `length` pixels."""
        ratio = Fraction(length, self.length)
        return Side(length, self.scale * ratio, self.offset * ratio)

    def moved(self, by: int, length: int) -> "Side":
        """Return this side padded by `by` pixels at its start (negative: cropped), to `length`."""
        return Side(length, self.scale, self.offset + by)

    def sources(self, pixels: int, answered: int) -> npt.NDArray[np.int64]:
        """Return, for each of the image's `pixels`, the pixel of an answer that holds its centre.

        The answer has `answered` pixels along the side. Results below 0, and from `answered` on,
        are pixels that the model did not see. Shape [pixels].
        """
        ratio = Fraction(answered, self.length)
        scale, offset = self.scale * ratio, self.offset * ratio
        # In integers of any size: (2 at + 1) / 2 x scale + offset, rounded down.
        below = 2 * scale.denominator * offset.denominator
        slope = scale.numerator * offset.denominator
        start = slope + 2 * scale.denominator * offset.numerator
        return np.array([(2 * at * slope + start) // below for at in range(pixels)], np.int64)

    def to_image(self, positions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return positions in the input as positions in the image, in pixels."""
        return (positions - float(self.offset)) / float(self.scale)


Frame = tuple[Side, Side]
"""The height and the width of an input."""


def geometry_steps_of(inputs: Iterable[Sequence[Step]]) -> tuple[Step, ...] | None:
    """Return the steps that place an image in a model's inputs, in order; () if there are none.

    None if two inputs hold different parts of the image.
    """
    steps_by_input = [
        tuple(step for step in steps if step.operator in GEOMETRY_OPERATORS) for steps in inputs
    ]
    nonempty = [steps for steps in steps_by_input if steps]
    return (
        None
        if any(steps != nonempty[0] for steps in nonempty)
        else (nonempty[0] if nonempty else ())
    )


def frame_of(steps: Iterable[Step], size: Size) -> Frame:
    """Return the geometry of an image of `size` in the input that these steps make of it.

    Raises KeyError, TypeError, ValueError for parameters that the steps themselves refuse.
    """
    frame: Frame = (Side(size[0]), Side(size[1]))
    for step in steps:
        have = frame[0].length, frame[1].length
        if step.operator == "resize":
            want = _resized(have, step.parameters)
            frame = frame[0].stretched(want[0]), frame[1].stretched(want[1])
            continue
        if step.operator in ("crop", "pad"):
            want, before = (_cut if step.operator == "crop" else _padded)(have, step.parameters)
            frame = frame[0].moved(before[0], want[0]), frame[1].moved(before[1], want[1])
    return frame


def map_to_image(
    pixels: npt.NDArray[Any], frame: Frame, size: Size
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Map an answer's `pixels` [h, w] in an input of `frame` to an image of `size`.

    Returns the mapped pixels and a mask, both of shape `size`. Each pixel of the image has the
    value of the answer's pixel that holds its centre; the mask is False for pixels that the model
    did not see, whose values are arbitrary.
    """
    rows, columns = (
        side.sources(want, have) for side, want, have in zip(frame, size, pixels.shape, strict=True)
    )
    is_seen = ((rows >= 0) & (rows < pixels.shape[0]))[:, None] & (
        (columns >= 0) & (columns < pixels.shape[1])
    )
    at = rows.clip(0, pixels.shape[0] - 1), columns.clip(0, pixels.shape[1] - 1)
    return pixels.take(at[0], axis=0).take(at[1], axis=1), is_seen


def covering(have: Sequence[int], want: Size) -> Size:
    """Return `have` (height, width) scaled so that it just covers `want`.

    The longer side is truncated to whole pixels, as in torchvision's Resize.
    """
    if want[0] * have[1] >= want[1] * have[0]:
        return want[0], max(want[1], want[0] * have[1] // have[0])
    return max(want[0], want[1] * have[0] // have[1]), want[1]


def inside(have: Sequence[int], want: Size) -> Size:
    """Return `have` (height, width) scaled so that it just fits into `want`."""
    scale = min(want[0] / have[0], want[1] / have[1])
    height, width = (max(1, round(side * scale)) for side in have[:2])
    return min(want[0], height), min(want[1], width)


def within(have: Sequence[int], longer_side: int) -> Size:
    """Return `have` (height, width) scaled so that the longer side is `most`."""
    scale = longer_side / max(have[:2])
    return max(1, round(have[0] * scale)), max(1, round(have[1] * scale))


def share(have: Sequence[int], ratio: float) -> Size:
    """Return `have` (height, width) with each side multiplied by `ratio`."""
    return max(1, round(have[0] * ratio)), max(1, round(have[1] * ratio))


def cut_before(spare: int, *, centred: bool) -> int:
    """Return the pixels cropped at the start: half to even, as in torchvision's CenterCrop."""
    return round(spare / 2) if centred else 0


def padded_before(spare: int, *, centred: bool) -> int:
    """Return the pixels of padding at the start; an odd pixel is at the end."""
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
        -cut_before(side - target, centred=_is_centred(parameters))
        for side, target in zip(have, want, strict=True)
    )
    return want, (first, second)


def _padded(have: Size, parameters: Mapping[str, Any]) -> tuple[Size, Size]:
    want = _dimensions(parameters)
    if want is None:
        multiple = int(parameters["multiple"])
        want = -(-have[0] // multiple) * multiple, -(-have[1] // multiple) * multiple
    first, second = (
        padded_before(target - side, centred=_is_centred(parameters))
        for side, target in zip(have, want, strict=True)
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
