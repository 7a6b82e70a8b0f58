"""Decodes pictures by nvJPEG, through torchvision, and resizes and crops them on the GPU."""

import contextlib
import threading
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
    why_not_jpeg,
)
from services.agent.predictors.shapes import first_line
from services.agent.steps.forms import Array, CropForm, DecodeForm, DeviceForm, ResizeForm

Decode = Callable[[list[torch.Tensor]], list[torch.Tensor]]
"""Returns (3, height, width) of bytes on the device for the bytes of each JPEG file."""
Picture = Any
"""A tensor of (3, height, width) bytes, or a PictureFault."""


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
        self._stream = torch.cuda.Stream(device) if is_on_gpu else None
        # torchvision decodes on a stream of its own, which does not wait for this one: memory that
        # another batch has freed, yet still reads, could be decoded into.
        self._lock = threading.Lock()

    def apply(self, bodies: Sequence[bytes], batch: Array | None = None) -> PreparedPictures:
        """Return what the steps make of the files' `bodies`; see `PictureSteps`."""
        on_stream: Any = contextlib.nullcontext()
        if self._stream is not None:
            on_stream = torch.cuda.stream(self._stream)
        with self._lock, torch.inference_mode(), on_stream:
            stamps_ns = [now_ns()]
            pictures: list[Picture] = []
            for number, form in enumerate(self._forms):
                if isinstance(form, DecodeForm):
                    pictures = self._decoded(bodies, is_reversed=form.is_reversed)
                else:
                    pictures = [edited(picture, form, number) for picture in pictures]
                self._synchronize()
                stamps_ns.append(now_ns())
            arrays = self._fetched(pictures, batch)
            return PreparedPictures(arrays, (*stamps_ns, now_ns()))

    def _decoded(self, bodies: Sequence[bytes], *, is_reversed: bool) -> list[Picture]:
        reasons = [why_not_jpeg(body) for body in bodies]
        files = [
            torch.frombuffer(bytearray(body), dtype=torch.uint8)
            for body, reason in zip(bodies, reasons, strict=True)
            if not reason
        ]
        decoded: list[Picture] = []
        try:
            decoded += self._decode(files) if files else []
        except RuntimeError:
            # One bad file fails all of a batch, without a word which it is.
            decoded = [self._decoded_alone(file) for file in files]
        if is_reversed:
            decoded = [p if isinstance(p, PictureFault) else p.flip(0) for p in decoded]
        good = iter(decoded)
        return [PictureFault(0, reason) if reason else next(good) for reason in reasons]

    def _decoded_alone(self, file: torch.Tensor) -> Picture:
        try:
            return self._decode([file])[0]
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
        size, last = (count, channels, height, width), len(self._forms) - 1
        pixels = torch.zeros(size, dtype=torch.uint8, device=self._device)
        arrays: list[Array | PictureFault] = []
        for place, row, picture in zip(batch, pixels, pictures, strict=True):
            if isinstance(picture, PictureFault):
                arrays.append(picture)
            elif picture.shape != row.shape:
                actual, wanted = (tuple(tensor.shape[1:]) for tensor in (picture, row))
                arrays.append(
                    PictureFault(last, f"the picture is {actual}, the model takes {wanted}")
                )
            else:
                row.copy_(picture)
                arrays.append(place)
        torch.from_numpy(batch).copy_(pixels.permute(0, 2, 3, 1), non_blocking=True)
        self._synchronize()
        return arrays

    def _synchronize(self) -> None:
        if self._stream is not None:
            self._stream.synchronize()


def edited(picture: Picture, form: DeviceForm, number: int) -> Picture:
    """Return a picture after the step of a `form`, the steps' `number`-th."""
    if isinstance(picture, PictureFault):
        return picture
    height, width = picture.shape[1:]
    try:
        if isinstance(form, CropForm):
            top, left, bottom, right = form.window_of((height, width))
            return picture[:, top:bottom, left:right]
        if isinstance(form, ResizeForm) and (sides := form.sides_of((height, width))):
            values = interpolate(
                picture[None].float(), size=sides, mode=form.method, antialias=True
            )
            return values[0].round_().clamp_(0, 255).to(torch.uint8)
    except ValueError as error:
        return PictureFault(number, str(error))
    return picture
