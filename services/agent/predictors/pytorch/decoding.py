"""Decodes pictures by nvJPEG, through torchvision, and resizes and crops them on the GPU."""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.functional import interpolate

from mlscope.tracing.clock import now_ns
from services.agent.errors import PackageMissing
from services.agent.predictors.decoding import (
    NEEDED_BY,
    PictureFault,
    PreparedPictures,
    size_fault,
    why_not_jpeg,
)
from services.agent.predictors.shapes import first_line
from services.agent.steps.forms import Array, CropForm, DecodeForm, DeviceForm, ResizeForm

Decode = Callable[[list[torch.Tensor]], list[torch.Tensor]]
"""Returns (3, height, width) of bytes on the device for the bytes of each JPEG file."""
_MOST_RESIZED = 32
"""Pictures resized at once: as numbers they take four times their memory."""
Picture = Any
"""A tensor of (3, height, width) bytes, or a PictureFault."""
File = Any
"""A tensor of the bytes of a JPEG file, or a PictureFault."""


def nvjpeg_on(device: torch.device) -> tuple[Decode, str]:
    """Return what decodes on a `device`, and its name with its version. Raises PackageMissing."""
    try:
        import torchvision
        from torchvision.io import ImageReadMode, decode_jpeg
    except (ImportError, RuntimeError) as error:
        # RuntimeError: it was built for another PyTorch.
        reason = f"{first_line(error)}; pip install the torchvision of this PyTorch"
        raise PackageMissing(NEEDED_BY, reason) from error

    def decode(files: list[torch.Tensor]) -> list[torch.Tensor]:
        pictures: list[Any] = decode_jpeg(files, mode=ImageReadMode.RGB, device=device)
        return pictures

    return decode, f"nvJPEG (torchvision {torchvision.__version__})"


class DevicePictures:
    """The first steps of pictures on a device, one batch at a time.

    On a GPU they have a stream of their own, beside the model's.
    """

    def __init__(
        self, forms: Sequence[DeviceForm], device: torch.device, decoder: tuple[Decode, str]
    ) -> None:
        """Carry out the `forms` on a `device`; its `decoder` is a function and its name."""
        self._forms = forms
        self._decode, self.library = decoder
        self._device, is_on_gpu = device, device.type == "cuda"
        # Ahead of the model's kernels, each of which fills the GPU: these are small and wait for
        # each other.
        self._stream = torch.cuda.Stream(device, priority=-1) if is_on_gpu else None
        # torchvision decodes on a stream of its own, which does not wait for this one: memory that
        # another batch has freed, yet still reads, could be decoded into.
        self._lock = threading.Lock()

    def apply(self, bodies: Sequence[bytes], batch: Array | None = None) -> PreparedPictures:
        """Return what the steps make of the files' `bodies`; see `PictureSteps`."""
        # Before the lock: while the device works on another batch.
        files = [_file_of(body) for body in bodies]
        on_stream: Any = contextlib.nullcontext()
        if self._stream is not None:
            on_stream = torch.cuda.stream(self._stream)
        with self._lock, torch.inference_mode(), on_stream:
            stamps_ns = [now_ns()]
            pictures: list[Picture] = []
            for number, form in enumerate(self._forms):
                match form:
                    case DecodeForm():
                        pictures = self._decoded(files, is_reversed=form.is_reversed)
                    case ResizeForm():
                        pictures = resized(pictures, form)
                    case CropForm():
                        pictures = [cropped(picture, form, number) for picture in pictures]
                self._synchronize()
                stamps_ns.append(now_ns())
            arrays = self._fetched(pictures, batch)
            return PreparedPictures(arrays, (*stamps_ns, now_ns()))

    def _decoded(self, files: Sequence[File], *, is_reversed: bool) -> list[Picture]:
        readable = [file for file in files if not isinstance(file, PictureFault)]
        decoded: list[Picture] = []
        try:
            decoded += self._decode(readable) if readable else []
        except torch.OutOfMemoryError as error:
            raise MemoryError(first_line(error)) from error
        except RuntimeError:
            # One bad file fails all of a batch, without a word which it is.
            decoded = [self._decoded_alone(file) for file in readable]
        if is_reversed:
            decoded = [p if isinstance(p, PictureFault) else p.flip(0) for p in decoded]
        good = iter(decoded)
        return [file if isinstance(file, PictureFault) else next(good) for file in files]

    def _decoded_alone(self, file: torch.Tensor) -> Picture:
        try:
            return self._decode([file])[0]
        except torch.OutOfMemoryError as error:
            raise MemoryError(first_line(error)) from error
        except RuntimeError as error:
            return PictureFault(0, f"not a readable JPEG picture: {first_line(error)}")

    def _fetched(
        self, pictures: Sequence[Picture], batch: Array | None
    ) -> list[Array | PictureFault]:
        """Return the pictures' pixels on the host, in the `batch` if there is one."""
        if batch is None:
            return [
                p if isinstance(p, PictureFault) else p.permute(1, 2, 0).cpu().numpy()
                for p in pictures
            ]
        count, height, width, channels = batch.shape
        nothing = torch.zeros((channels, height, width), dtype=torch.uint8, device=self._device)
        rows, arrays, last = [nothing] * count, list[Array | PictureFault](), len(self._forms) - 1
        for number, picture in enumerate(pictures):
            if isinstance(picture, PictureFault):
                arrays.append(picture)
            elif picture.shape != nothing.shape:
                arrays.append(PictureFault(last, size_fault(picture.shape[1:], (height, width))))
            else:
                rows[number] = picture
                arrays.append(batch[number])
        pixels = torch.stack(rows).permute(0, 2, 3, 1)
        torch.from_numpy(batch).copy_(pixels, non_blocking=True)
        self._synchronize()
        return arrays

    def _synchronize(self) -> None:
        if self._stream is not None:
            self._stream.synchronize()


def _file_of(body: bytes) -> File:
    """Return a JPEG file's `body` as the decoder takes it, or why it is none."""
    if reason := why_not_jpeg(body):
        return PictureFault(0, reason)
    return torch.frombuffer(bytearray(body), dtype=torch.uint8)


def resized(pictures: Sequence[Picture], form: ResizeForm) -> list[Picture]:
    """Return `pictures` after a `form` of resize, those of equal sides together.

    Most of the time goes into launches.
    """
    places_of: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, picture in enumerate(pictures):
        if not isinstance(picture, PictureFault):
            places_of[tuple(picture.shape[1:])].append(place)
    after = list(pictures)
    for sides, places in places_of.items():
        new_sides = form.sides_of((sides[0], sides[1]))
        for first in range(0, len(places), _MOST_RESIZED):
            group = places[first : first + _MOST_RESIZED]
            values = torch.stack([pictures[place] for place in group]).float()
            values = interpolate(values, size=new_sides, mode=form.method, antialias=True)
            pixels = values.round_().clamp_(0, 255).to(torch.uint8)
            for place, picture in zip(group, pixels.unbind(), strict=True):
                after[place] = picture
    return after


def cropped(picture: Picture, form: CropForm, number: int) -> Picture:
    """Return a `picture` after a `form` of crop, the steps' `number`-th."""
    if isinstance(picture, PictureFault):
        return picture
    height, width = picture.shape[1:]
    try:
        top, left, bottom, right = form.window_of((height, width))
    except ValueError as error:
        return PictureFault(number, str(error))
    return picture[:, top:bottom, left:right]
