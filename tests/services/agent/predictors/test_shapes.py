"""Zeros for a first run: a constant input has its value, and a shape of its own."""

import numpy as np

from schemas.manifest import Port, Step
from services.agent.predictors import TensorPlace
from services.agent.predictors.shapes import first_line, is_batched, zeros


def constant(name: str, shape: tuple[int, ...], value: float) -> Port:
    step = Step(operator="constant", parameters={"value": value})
    return Port(type="raw", layer_name=name, shape=shape, steps=(step,))


PORTS = (
    Port(type="raw", layer_name="x", shape=(-1, 3, 8)),
    constant("state", (2, -1, 4), 0.5),
    constant("rate", (), 16000),
)
PLACES = (
    TensorPlace("rate", (), "int64"),
    TensorPlace("x", (-1, -1, 8), "float32"),
    TensorPlace("state", (2, -1, 4), "float32"),
)


def test_each_input_is_filled_by_its_name() -> None:
    filled = zeros(PLACES, PORTS, 5)
    assert {name: array.shape for name, array in filled.items()} == {
        "rate": (), "x": (5, 3, 8), "state": (2, 5, 4)
    }  # fmt: skip
    assert (filled["rate"].item(), filled["rate"].dtype) == (16000, np.dtype("int64"))
    assert (filled["state"] == 0.5).all()
    assert not filled["x"].any()


def test_only_a_constant_is_not_of_the_batch() -> None:
    assert [is_batched(name, PORTS) for name in ("x", "state", "unnamed")] == [True, False, True]


def test_a_line_that_announces_the_cause_is_given_with_it() -> None:
    error = RuntimeError("backend='inductor' raised:\nPermissionError: /cache\n\nSet TORCH_LOGS")
    assert first_line(error) == "backend='inductor' raised: PermissionError: /cache"
