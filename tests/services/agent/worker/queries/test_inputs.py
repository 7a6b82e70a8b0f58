"""The inputs of an opened model: filled, constant, and received."""

from typing import Any

import numpy as np
import pytest

from schemas.manifest import DatasetManifest, ModelManifest, Port, Step, Synthetic, SyntheticTensor
from services.agent.errors import OpenFailed
from services.agent.predictors import TensorPlace
from services.agent.steps import Operator
from services.agent.worker.queries.inputs import Inputs, inputs_of, received_sample
from services.agent.worker.queries.pipeline import PortOperators, pipeline_of, steps_of
from tests.services.agent.builders import a_synthetic, model_named, raw_port

PLAIN = DatasetManifest(name="d")


def a_model(*ports: Port) -> ModelManifest:
    """Return a model of these inputs."""
    return model_named("identity").model_copy(update={"inputs": ports})


def a_constant(name: str, shape: tuple[int, ...], value: float) -> Port:
    """Return an input that no sample supplies."""
    step = Step(operator="constant", parameters={"value": value})
    return raw_port(name, shape).model_copy(update={"steps": (step,)})


def test_samples_fill_some_and_constants_the_others() -> None:
    model = a_model(
        raw_port("a", (-1, 4)), a_constant("state", (2, -1, 3), 0.5), a_constant("rate", (), 16000)
    )
    opened = [
        TensorPlace("rate", (), "int64"),
        TensorPlace("a", (-1, -1), "float32"),
        TensorPlace("state", (2, -1, 3), "float32"),
    ]
    inputs = inputs_of(model, opened, PLAIN, 5)
    slot = inputs.slot()
    shapes = {name: (array.shape, str(array.dtype)) for name, array in slot.inputs.items()}
    assert shapes == {
        "a": ((5, 4), "float32"),
        "state": ((2, 5, 3), "float32"),
        "rate": ((), "int64"),
    }
    assert slot.inputs["rate"] == 16000
    assert np.array_equal(np.unique(slot.inputs["state"]), [0.5])
    assert [array.shape for array in slot.arrays] == [(5, 4)]


@pytest.mark.parametrize(
    ("says", "kind", "told"),
    [
        ((-1, 5), "float32", r"shape \[-1, 4\], its manifest says \[-1, 5\]"),
        ((-1, 4, 1), "float32", r"its manifest says \[-1, 4, 1\]"),
        ((-1, 4), "int64", "x is float32, its manifest says int64"),
    ],
)
def test_a_manifest_that_contradicts_its_model_is_refused(
    says: tuple[int, ...], kind: str, told: str
) -> None:
    model = a_model(raw_port("x", says).model_copy(update={"element_type": kind}))
    with pytest.raises(OpenFailed, match=told):
        inputs_of(model, [TensorPlace("x", (-1, 4), "float32")], PLAIN, 1)


def again(port: Port) -> Port:
    """Return a port as it is after a journey."""
    return Port.model_validate_json(port.model_dump_json())


@pytest.mark.parametrize("journey", [lambda port: port, again])
def test_float32_that_is_said_is_no_other_type(journey: Any) -> None:
    said = journey(Port(type="raw", layer_name="x", element_type="float32"))
    unsaid = journey(Port(type="raw", layer_name="x"))
    opened = [TensorPlace("x", (-1, 4), "int64")]
    (place,) = inputs_of(a_model(unsaid), opened, PLAIN, 1).places
    assert place.element_type == "int64"
    with pytest.raises(OpenFailed, match="x is int64, its manifest says float32"):
        inputs_of(a_model(said), opened, PLAIN, 1)


@pytest.mark.parametrize("says", [(), (-1, 4), (7, 4), (-1, -1)])
def test_a_manifest_may_leave_things_to_its_model(says: tuple[int, ...]) -> None:
    model = a_model(raw_port("x", says))
    (place,) = inputs_of(model, [TensorPlace("x", (-1, 4), "int64")], PLAIN, 3).places
    assert (place.shape, place.element_type) == ((3, 4), "int64")


def by_order() -> Inputs:
    """Return two inputs that the manifest has no names for."""
    model = a_model(raw_port("", (-1, 4)), raw_port("", (-1, 2)))
    places = [TensorPlace("in:0", (-1, 4), "float32"), TensorPlace("in:1", (-1, 2), "int64")]
    return inputs_of(model, places, PLAIN, 1)


def test_inputs_without_names_go_by_their_order() -> None:
    inputs = by_order()
    model = a_model(raw_port("", (-1, 4)), raw_port("", (-1, 2)))
    named = inputs.named(pipeline_of(steps_of(model), lambda _: ()))
    assert [port.name for port in named.before] == ["in:0", "in:1"]
    assert [place.shape for place in inputs.supplied] == [(4,), (2,)]


def test_what_stays_free_a_synthetic_dataset_fills() -> None:
    model = a_model(raw_port("ids", (-1, -1)), raw_port("x", ()))
    opened = [TensorPlace("ids", (-1, -1), "int64"), TensorPlace("x", (), "float32")]
    made = Synthetic(shape=(7,), inputs={"x": SyntheticTensor(shape=(2, 2))})
    slot = inputs_of(model, opened, DatasetManifest(name="d", synthetic=made), 3).slot()
    assert [array.shape for array in slot.arrays] == [(3, 7), (3, 2, 2)]


@pytest.mark.parametrize(
    ("shape", "named"), [((-1, -1), r"has free dimensions \[-1\]"), ((), "has no known shape")]
)
def test_a_dimension_that_stays_free_is_named(shape: tuple[int, ...], named: str) -> None:
    opened = [TensorPlace("x", shape, "float32")]
    with pytest.raises(OpenFailed, match=f"input x {named}; give them in the manifest"):
        inputs_of(a_model(raw_port("x", shape)), opened, PLAIN, 1)


def test_the_model_s_own_shape_is_stronger_than_a_dataset_s() -> None:
    opened = [TensorPlace("x", (-1, 4), "float32")]
    inputs = inputs_of(a_model(raw_port("x", (-1, 4))), opened, a_synthetic((5,)), 2)
    assert inputs.places[0].shape == (2, 4)


PORTS = (PortOperators("text", (Operator("tokenize", str),)), PortOperators("x"))
ARRAYS = (np.zeros((1, 3)), np.zeros((1, 2), np.int8))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"text": b"hi", "x": b"\1\2"}, {"text": b"hi", "x": [1, 2]}),
        (b"ab", {"text": b"ab", "x": [97, 98]}),
    ],
)
def test_a_sample_that_came_is_taken_apart_by_input(body: Any, expected: dict[str, Any]) -> None:
    found = received_sample(body, PORTS, ARRAYS)
    assert {**found, "x": found["x"].tolist()} == expected


def test_a_sample_without_an_input_is_no_good() -> None:
    with pytest.raises(ValueError, match="a sample has no input 'x'"):
        received_sample({"text": b"hi"}, PORTS, ARRAYS)


def test_one_input_s_map_is_its_tensor() -> None:
    assert received_sample({"x": b"\1\2"}, PORTS[1:], ARRAYS[1:]).tolist() == [1, 2]
