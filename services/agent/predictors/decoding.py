"""What a predictor's device carries out of the first steps of pictures, a whole batch at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from services.agent.steps.forms import Array, DeviceForm

OPTION = "decode"
"""The option of a request: `host`, the default, or `device`."""
PLACES = ("host", "device")
NEEDED_BY = "option decode: device"
_SCAN, _END = b"\xda", b"\xff\xd9"


@dataclass(frozen=True, slots=True)
class PictureFault:
    """Why a device can't prepare a sample, and the number of the step that failed."""

    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class PreparedPictures:
    """Pictures on the host, (height, width, 3) of bytes, or why there is none.

    `stamps_ns` has when the first step began, when each ended, and when the pixels were on the host
    (CLOCK_MONOTONIC).
    """

    pictures: Sequence[Array | PictureFault]
    stamps_ns: Sequence[int]


class PictureSteps(Protocol):
    """The first steps of pictures on a device."""

    #: what decodes and resizes, with its version
    library: str

    def apply(self, bodies: Sequence[bytes], batch: Array | None = None) -> PreparedPictures:
        """Return what the steps make of the files' `bodies`.

        With a `batch`, (samples, height, width, 3) of bytes, the pictures lie in it.
        """
        ...


@runtime_checkable
class PictureDecoder(Protocol):
    """A predictor whose device can decode pictures."""

    @property
    def decodes_pictures(self) -> bool:
        """Whether the request asks for that."""
        ...

    def picture_steps(self, forms: Sequence[DeviceForm]) -> PictureSteps:
        """Return the steps of these `forms`, of which the first decodes. Raises PackageMissing."""
        ...


def size_fault(actual: Sequence[int], expected: Sequence[int]) -> str:
    """Return why a picture of an `actual` height and width does not fit the `expected` ones."""
    return f"the picture is {tuple(actual)}, the model takes {tuple(expected)}"


def why_not_jpeg(body: bytes) -> str:
    """Return why a file is no complete JPEG, '' where it may be one.

    nvJPEG fills what a truncated file lacks with grey, where Pillow refuses it. The end is looked
    for behind the header's segments: a thumbnail in one of them has an end of its own. The search
    begins at the end of the file, where the end nearly always is.
    """
    if not body.startswith(b"\xff\xd8\xff"):
        return "not a JPEG file, which decode: device needs"
    place = 2
    while body[place : place + 1] == b"\xff" and body[place + 1 : place + 2] != _SCAN:
        place += 2 + int.from_bytes(body[place + 2 : place + 4], "big")
    return "" if body.rfind(_END, place) > 0 else "the JPEG file is truncated: it has no end"
