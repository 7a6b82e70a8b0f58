"""Pictures decoded on a GPU by nvJPEG (torchvision) beside Pillow: rates and differences.

`python -m benchmarks.decoding_gpu [--rounds 7] [--keep]`, on a GPU. A batch is the photographs of
the dataset photos, again and again; nothing of it is in a predictor yet. Printed are pictures a
second of decoding alone, and of decoding, resizing with antialiasing to 232, cropping to 224 and
normalising, all on the device; then the difference from Pillow's decoded bytes, and from the
manifest's own steps in standard deviations of what a model takes.
"""

import argparse
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.timing import keeping

PHOTOS = Path(__file__).resolve().parent.parent / "manifests" / "datasets" / "photos"
RESIZED, SIZE = 232, 224
MEAN, SCALE = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def encoded() -> list[bytes]:
    """Return the photographs as their files have them."""
    return [path.read_bytes() for path in sorted(PHOTOS.glob("*.jpg"))]


def by_pillow(body: bytes) -> tuple[Any, Any]:
    """Return a photograph's bytes [3, height, width], and what a model takes of it."""
    from PIL import Image

    picture = Image.open(io.BytesIO(body)).convert("RGB")
    pixels = np.asarray(picture).transpose(2, 0, 1)
    width, height = picture.size
    factor = RESIZED / min(width, height)
    resized = picture.resize((round(width * factor), round(height * factor)), Image.Resampling(2))
    left_px, top_px = ((length - SIZE) // 2 for length in resized.size)
    cropped = resized.crop((left_px, top_px, left_px + SIZE, top_px + SIZE))
    mean, scale = np.array(MEAN, np.float32), np.array(SCALE, np.float32)
    return pixels, ((np.asarray(cropped) - mean) / scale).transpose(2, 0, 1)


def prepared(pictures: list[Any]) -> Any:
    """Return a batch of decoded pictures on the device as a model takes it."""
    import torch
    from torch.nn.functional import interpolate

    mean, scale = (torch.tensor(v, device="cuda").reshape(3, 1, 1) for v in (MEAN, SCALE))
    slots = torch.empty((len(pictures), 3, SIZE, SIZE), device="cuda")
    for slot, picture in zip(slots, pictures, strict=True):
        height, width = picture.shape[1:]
        factor = RESIZED / min(width, height)
        size = (round(height * factor), round(width * factor))
        resized = interpolate(picture[None].float(), size=size, mode="bilinear", antialias=True)[0]
        top_px, left_px = ((length - SIZE) // 2 for length in size)
        slot.copy_(resized[:, top_px : top_px + SIZE, left_px : left_px + SIZE])
    return slots.round_().clamp_(0, 255).sub_(mean).div_(scale)


def rate_of(work: Callable[[], object], count: int, rounds: int) -> float:
    """Return the median of pictures a second."""
    import torch

    rates = []
    for _ in range(rounds + 2):
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        rates.append(count / (time.perf_counter() - began))
    return median(rates[2:])


def main() -> int:
    """Print rates and differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    import torch
    import torchvision
    from torchvision.io import ImageReadMode, decode_jpeg

    if not torch.cuda.is_available():
        print("PyTorch sees no GPU here: nothing was measured")
        return 0

    def decoded(bodies: list[Any]) -> list[Any]:
        pictures: list[Any] = decode_jpeg(bodies, mode=ImageReadMode.RGB, device="cuda")
        return pictures

    bodies = encoded()
    tensors = [torch.frombuffer(bytearray(body), dtype=torch.uint8) for body in bodies]
    with keeping("decoding_gpu", is_wanted=options.keep):
        print(f"{torch.cuda.get_device_name()}, torchvision {torchvision.__version__}")
        for size in (1, 8, 32, 128, 256):
            batch = [tensors[number % len(tensors)] for number in range(size)]
            alone = rate_of(lambda batch=batch: decoded(batch), size, options.rounds)  # type: ignore[misc]
            joint_rate = rate_of(lambda batch=batch: prepared(decoded(batch)), size, options.rounds)  # type: ignore[misc]
            print(
                f"batch {size:4}: decode {alone:8.0f}/s, "
                f"and resize, crop, normalise {joint_rate:8.0f}/s"
            )
        pictures = decoded(tensors)
        ready = prepared(pictures).cpu().numpy()
        print(
            "photo: of Pillow's bytes different, mean and largest difference; of the input, in sd"
        )
        for number, body in enumerate(bodies):
            pixels, expected = by_pillow(body)
            apart = np.abs(pictures[number].cpu().numpy().astype(int) - pixels.astype(int))
            inputs = np.abs(ready[number] - expected)
            print(
                f"  {number}: {np.mean(apart > 0):6.1%} {apart.mean():.3f} {apart.max():4}; "
                f"mean {inputs.mean():.4f}, largest {inputs.max():.3f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
