"""Further forms of a step's function, which make the same result with fewer copies.

Between steps a picture is an array, and what the last step returns is copied into the batch. Steps
that follow each other in one pipeline can do without: `linking` chooses the forms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image

Array = npt.NDArray[Any]


Sides = tuple[int, int]
"""Height and width of a picture, in pixels."""


@dataclass(frozen=True, slots=True)
class DecodeForm:
    """A file becomes red, green and blue bytes; `is_reversed`: blue, green and red."""

    is_reversed: bool


@dataclass(frozen=True, slots=True)
class ResizeForm:
    """A picture gets the sides that `sides_of` returns, filtered by `method` when it shrinks."""

    sides_of: Callable[[Sides], Sides]
    #: bilinear or bicubic
    method: str


@dataclass(frozen=True, slots=True)
class CropForm:
    """A picture keeps its window: `window_of` returns top, left, bottom and right."""

    window_of: Callable[[Sides], tuple[int, int, int, int]]


DeviceForm = DecodeForm | ResizeForm | CropForm
"""What a device can carry out in a step's place; its pixels may differ from the step's."""


@dataclass(frozen=True, slots=True)
class Forms:
    """The forms that a step has; None where it has not got one."""

    #: returns a picture in Pillow from what the step itself takes
    open_picture: "Callable[[Any], Image] | None" = None
    #: whether its pixels have the channels in the other order, as blue, green, red
    is_reversed: bool = False
    #: takes a picture in Pillow and returns one, in place of arrays
    edit_picture: "Callable[[Image], Image] | None" = None
    #: writes the result for a value to an array, if it fits there exactly; says whether it did
    write: Callable[[Array, Array], bool] | None = None
    #: the element type of the result of `write`; None: that of the value
    element_type: np.dtype[Any] | None = None
    #: the order of its dimensions that the step gives to a value, if it changes nothing else;
    #: () for the order that it has
    order: tuple[int, ...] | None = None
    #: what a device can carry out in its place, for pictures of three channels
    on_device: DeviceForm | None = None


NO_FORMS = Forms()


def pixels_of(picture: "Image", *, is_reversed: bool = False) -> npt.NDArray[np.uint8]:
    """Return the pixels of a picture in Pillow, (height, width, channels).

    With `is_reversed` the last channel is the first.
    """
    pixels = np.asarray(picture)
    if is_reversed:
        return pixels[:, :, ::-1]
    return pixels[:, :, np.newaxis] if pixels.ndim == 2 else pixels


def write_ordered(value: Array, place: Array, order: tuple[int, ...]) -> bool:
    """Write a value with its dimensions in an `order` to a `place`, of whose type it is made.

    Returns False, and writes nothing, where the shapes differ. With order () they stay as they are.
    """
    moved = value.transpose(order) if order else value
    if moved.shape != place.shape:
        return False
    np.copyto(place, moved, casting="unsafe")
    return True
