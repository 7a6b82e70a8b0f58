"""layout: the order of dimensions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.errors import BadParameter
from tests.services.agent.steps.applying import apply


@given(st.permutations("HWC"))
def test_every_order_is_numpy_s(letters: list[str]) -> None:
    tensor = np.arange(24).reshape(2, 3, 4)
    target = "".join(letters)
    found = apply("layout", tensor, **{"from": "HWC", "to": target})
    assert np.array_equal(found, tensor.transpose(["HWC".index(each) for each in target]))
    assert found.flags.c_contiguous


def test_dimensions_of_one_come_and_go() -> None:
    tensor = np.arange(6).reshape(2, 3)
    assert apply("layout", tensor, **{"from": "HW", "to": "NCHW"}).shape == (1, 2, 3)
    assert apply("layout", tensor[None], **{"from": "CHW", "to": "WH"}).shape == (3, 2)


def test_what_has_other_dimensions_is_no_good() -> None:
    for shape in ((2, 3), (3, 2, 3)):
        with pytest.raises(ValueError, match="is not CHW, to become HW"):
            apply("layout", np.zeros(shape), **{"from": "CHW", "to": "HW"})
    with pytest.raises(BadParameter, match="letters, each once"):
        apply("layout", None, **{"from": "HHW"})
