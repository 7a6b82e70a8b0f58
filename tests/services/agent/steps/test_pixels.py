"""decode, resize, crop, normalize, cast: pixels on their way to a tensor."""

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from schemas.manifest import Step
from services.agent.steps import operator_of

Pixels = npt.NDArray[np.uint8]


def apply(operator: str, value: Any, **parameters: Any) -> Any:
    step = Step(operator=operator, parameters=parameters)
    return operator_of(step, lambda _: ()).apply(value)


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


def test_grey_becomes_three_channels() -> None:
    pixels = apply("decode", picture("PNG", "L", 77))
    assert pixels[0, 0].tolist() == [77, 77, 77]


@pytest.mark.parametrize("body", [b"", b"no picture", picture("JPEG")[:60], picture("GIF")])
def test_a_broken_picture_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError, match="not a readable JPEG, PNG or WebP"):
        apply("decode", body)


@pytest.mark.parametrize("dimensions", [5, [5, 5], [3, 5, 5]])
def test_resize_takes_sizes_in_three_forms(dimensions: Any) -> None:
    assert apply("resize", np.zeros((4, 6, 3), np.uint8), dimensions=dimensions).shape == (5, 5, 3)


def test_keeping_the_ratio_covers_the_wanted_size() -> None:
    pixels = np.zeros((100, 300, 3), np.uint8)
    kept = apply("resize", pixels, dimensions=50, keep_aspect_ratio=True)
    assert kept.shape == (50, 150, 3)


def test_nearest_invents_no_value() -> None:
    pixels = np.array([[[0] * 3, [200] * 3]], np.uint8)
    grown = apply("resize", pixels, dimensions=[2, 8], method="nearest")
    assert set(np.unique(grown)) == {0, 200}


def test_a_crop_is_central_or_top_left() -> None:
    pixels = np.arange(25, dtype=np.uint8).reshape(5, 5, 1)
    assert apply("crop", pixels, dimensions=1)[0, 0, 0] == 12
    assert apply("crop", pixels, dimensions=1, method="top_left")[0, 0, 0] == 0
    assert apply("crop", pixels, ratio=0.6).shape == (3, 3, 1)


def test_a_crop_larger_than_the_picture_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="is smaller than the crop"):
        apply("crop", np.zeros((5, 5, 3), np.uint8), dimensions=[6, 5])


def test_normalize_is_exact() -> None:
    pixels = np.array([[[127, 255, 0]]], np.uint8)
    result = apply("normalize", pixels, mean=127.0, scale=128.0)
    assert (result.dtype, result.tolist()) == (np.float32, [[[0.0, 1.0, -0.9921875]]])
    by_channel = apply("normalize", pixels, mean=[127, 0, 0], rescale=[1, 255, 1])
    assert by_channel.tolist() == [[[0.0, 1.0, 0.0]]]


def test_cast_moves_channels_first() -> None:
    pixels = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    moved = apply("cast", pixels, data_layout="NCHW", element_type="float16")
    assert (moved.shape, moved.dtype) == ((3, 2, 4), np.float16)
    assert moved.flags.c_contiguous
    assert moved[1, 0, 2] == pixels[0, 2, 1]
    assert apply("cast", pixels).shape == (2, 4, 3)
