"""image and raw: tensors as answers."""

import base64
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.services.agent.steps.applying import apply


def decoded(feature: dict[str, Any]) -> Any:
    """Return the pixels of a feature."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(feature["data"]))))


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3]), st.integers(0, 99))
def test_a_picture_comes_back_as_it_was(h: int, w: int, channels: int, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (2, h, w, channels))
    tensor = ((pixels - 127.5) / 127.5).astype(np.float32)
    found = apply("image", np.moveaxis(tensor, 3, 1), mean=127.5, scale=127.5)
    assert np.array_equal(decoded(found[1][0]).reshape(h, w, channels), pixels[1])
    assert found[0][0]["size"] == [h, w]


def test_what_is_out_of_range_is_cut() -> None:
    ((feature,),) = apply("image", np.array([[[[-5.0, 300.0, np.nan]]]]))
    assert decoded(feature).tolist() == [[0, 255, 0]]
    with pytest.raises(ValueError, match="not a picture of 1 or 3 channels"):
        apply("image", np.zeros((1, 2, 4, 4)))


def test_colours_may_be_the_other_way_round() -> None:
    tensor = np.array([[[[1, 2, 3]]]])
    ((feature,),) = apply("image", tensor, data_layout="NHWC", color_mode="BGR")
    assert decoded(feature).tolist() == [[[3, 2, 1]]]


def test_raw_is_the_tensor_up_to_a_bound() -> None:
    ((feature,),) = apply("raw", np.arange(6, dtype=np.int8).reshape(1, 2, 3), most=4)
    assert feature == {
        "type": "raw",
        "shape": [2, 3],
        "element_type": "int8",
        "values": [0, 1, 2, 3],
    }
