"""A batch's arrays as a module's tensors, and its answer as arrays."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from services.agent.predictors.pytorch.feed import Feed  # noqa: E402
from services.agent.predictors.pytorch.options import options_of  # noqa: E402
from services.agent.predictors.pytorch.outputs import (  # noqa: E402
    array_of,
    leaves_of,
    single_output_name,
)


def fed(**options: Any) -> tuple[Feed, dict[str, Any]]:
    inputs: dict[str, Any] = {"x": np.ones((2, 3, 4, 4), np.float32), "ids": np.arange(2)}
    return Feed(inputs, options_of({"threads": 1, **options}, "cpu", has_gpu=False)), inputs


def test_on_a_cpu_tensors_are_the_arrays_themselves() -> None:
    feed, inputs = fed()
    inputs["x"][:] = 7
    tensors = feed.moved()
    assert tensors is feed.moved()
    assert [each.data_ptr() for each in tensors] == [a.ctypes.data for a in inputs.values()]
    assert float(tensors[0].max()) == 7


def test_another_precision_is_made_anew_of_what_the_arrays_hold_now() -> None:
    feed, inputs = fed(precision="bfloat16")
    inputs["x"][:] = 7
    x, ids = feed.moved()
    assert (x.dtype, float(x.min())) == (torch.bfloat16, 7)
    assert ids.dtype == torch.int64


def test_channels_come_last_where_that_was_asked_for() -> None:
    x, _ = fed(channels_last=True)[0].moved()
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert x.shape == (2, 3, 4, 4)


@pytest.mark.parametrize("names", [[], ["scores"], ["0"], ["a", "0"], ["a", "b"]])
def test_one_tensor_is_named_as_any_answer_is(names: list[str]) -> None:
    assert list(leaves_of(torch.zeros(1), names)) == [single_output_name(names)]


def test_what_has_a_gradient_or_is_bfloat16_is_an_array_all_the_same() -> None:
    assert array_of(torch.nn.Parameter(torch.ones(2))).tolist() == [1, 1]
    assert array_of(torch.ones(2, dtype=torch.bfloat16)).dtype == np.float32
