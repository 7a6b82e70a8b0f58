"""decode: bytes to pixels."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.services.agent.builders import MANIFESTS
from tests.services.agent.steps.applying import apply

PHOTOS = MANIFESTS / "datasets" / "photos"


def picture(kind: str, mode: str = "RGB", colour: Any = (250, 10, 10)) -> bytes:
    out = io.BytesIO()
    Image.new(mode, (6, 4), colour).save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_picture_becomes_height_width_channels(kind: str) -> None:
    pixels = apply("decode", picture(kind))
    assert (pixels.shape, pixels.dtype) == ((4, 6, 3), np.uint8)
    assert pixels[0, 0, 0] > 200 > 60 > pixels[0, 0, 2]


def test_bgr_has_blue_first() -> None:
    pixels = apply("decode", picture("PNG"), color_mode="bgr")
    assert pixels[0, 0].tolist() == [10, 10, 250]
    assert pixels.flags.c_contiguous


def test_grey_becomes_three_channels() -> None:
    pixels = apply("decode", picture("PNG", "L", 77))
    assert pixels[0, 0].tolist() == [77, 77, 77]


def test_transparency_is_dropped() -> None:
    pixels = apply("decode", picture("PNG", "RGBA", (9, 8, 7, 0)))
    assert pixels[0, 0].tolist() == [9, 8, 7]


@pytest.mark.parametrize("body", [b"", b"no picture", picture("JPEG")[:60], picture("GIF")])
def test_a_broken_picture_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError, match="not a readable JPEG, PNG or WebP"):
        apply("decode", body)


@pytest.mark.parametrize("mode", ["L", "RGBA", "RGB"])
@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_every_mode_is_pillow_s(mode: str, kind: str) -> None:
    from PIL import Image

    pixels = np.random.default_rng(1).integers(0, 256, (5, 6, 4), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, lossless=True, exact=True)
    expected = np.asarray(Image.fromarray(pixels).convert(mode)).reshape(5, 6, -1)
    body = file.getvalue()
    assert np.array_equal(apply("decode", body, color_mode=mode), expected)
    moved = apply("decode", body, color_mode=mode, data_layout="CHW")
    assert np.array_equal(moved, expected.transpose(2, 0, 1))


@pytest.mark.parametrize("path", sorted(PHOTOS.glob("*.jpg")), ids=lambda path: path.stem)
def test_a_photograph_has_pillow_s_pixels(path: Path) -> None:
    body = path.read_bytes()
    expected = np.asarray(Image.open(io.BytesIO(body)).convert("RGB"))
    assert np.array_equal(apply("decode", body), expected)
