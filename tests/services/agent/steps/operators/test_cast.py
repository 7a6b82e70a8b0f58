"""cast: element type and layout."""

import numpy as np
import pytest

from tests.services.agent.steps.applying import apply

PIXELS = np.arange(24, dtype=np.float32).reshape(2, 4, 3)


def test_channels_move_first() -> None:
    moved = apply("cast", PIXELS, data_layout="NCHW", element_type="float16")
    assert (moved.shape, moved.dtype) == ((3, 2, 4), np.float16)
    assert moved.flags.c_contiguous
    assert moved[1, 0, 2] == PIXELS[0, 2, 1]


def test_channels_stay_last_unless_asked() -> None:
    assert apply("cast", PIXELS).shape == (2, 4, 3)
    assert apply("cast", PIXELS, layout="CHW").shape == (3, 2, 4)
    assert apply("cast", PIXELS, layout="CHW", data_layout="HWC").shape == (2, 4, 3)


@pytest.mark.parametrize(
    "kind", ["float32", "float16", "float64", "uint8", "int8", "int32", "int64"]
)
def test_every_type_is_numpy_s(kind: str) -> None:
    cast = apply("cast", PIXELS, element_type=kind)
    assert cast.dtype == kind
    assert np.array_equal(cast, PIXELS.astype(kind))
