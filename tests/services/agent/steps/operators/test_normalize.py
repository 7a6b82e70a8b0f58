"""normalize: pixels to numbers around nought."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.earlier_steps import earlier_step
from schemas.manifest import Step
from tests.services.agent.steps.applying import apply

PIXELS = np.array([[[127, 255, 0]]], np.uint8)


def test_it_is_exact() -> None:
    result = apply("normalize", PIXELS, mean=127.0, scale=128.0)
    assert (result.dtype, result.tolist()) == (np.float32, [[[0.0, 1.0, -0.9921875]]])


def test_channels_have_numbers_of_their_own() -> None:
    result = apply("normalize", PIXELS, mean=[127, 0, 0], rescale=[1, 255, 1])
    assert result.tolist() == [[[0.0, 1.0, 0.0]]]


def test_without_parameters_only_the_type_changes() -> None:
    result = apply("normalize", PIXELS)
    assert (result.dtype, result.tolist()) == (np.float32, PIXELS.tolist())


def test_a_factor_comes_first_as_in_pytorch() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (4, 5, 3), np.uint8)
    mean, scale = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    found = apply("normalize", pixels, mean=mean, scale=scale, rescale_factor=1 / 255)
    assert np.allclose(found, (pixels / 255 - mean) / scale, atol=2e-6)


NUMBERS = st.sampled_from([1.0, 127.5, [123.675, 116.28, 103.53], [0.5]])


@given(
    st.sampled_from(["uint8", "float32", "float64", "int16"]),
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.sampled_from([1, 3])),
    NUMBERS,
    NUMBERS,
    st.sampled_from([1.0, 1 / 255]),
    st.data(),
)
def test_it_is_the_earlier_one_in_every_bit(
    kind: str,
    shape: tuple[int, int, int],
    mean: object,
    scale: object,
    factor: float,
    data: st.DataObject,
) -> None:
    elements = st.floats(0, 255, width=32) if kind.startswith("float") else st.integers(0, 255)
    pixels = data.draw(arrays(kind, shape, elements=elements))
    parameters = {"mean": mean, "scale": scale, "rescale_factor": factor}
    expected = earlier_step(Step(operator="normalize", parameters=parameters))(pixels)
    found = apply("normalize", pixels, **parameters)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)
    turned = apply("normalize", pixels[:, ::-1, ::-1], **parameters)
    assert np.array_equal(
        turned,
        earlier_step(Step(operator="normalize", parameters=parameters))(pixels[:, ::-1, ::-1]),
    )


def test_more_dimensions_are_normalized_by_the_last() -> None:
    assert (
        apply("normalize", np.full((2, 3), 6, np.uint8), mean=[1, 2, 3]).tolist()
        == [[5.0, 4.0, 3.0]] * 2
    )
    with pytest.raises(ValueError, match="broadcast"):
        apply("normalize", np.full((2, 3, 4), 6, np.uint8), mean=[1, 2, 3])
