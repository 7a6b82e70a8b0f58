"""Outputs whose shapes are known only after a call, on the host and on a device."""

import ctypes
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from services.agent.predictors.onnxruntime.binding import BoundSession, Device
from services.agent.predictors.page_locking import PageLocks, page_aligned
from tests.services.agent.predictors.onnx_nets import WHOLE, model, node, place


def places_of_ones() -> Any:
    """Return a session of a model that names the places of what is not zero: (2, how many)."""
    places = place("x", (8, 1024)), place("y", (2, "n"), WHOLE)
    body = model([node("NonZero", "x", "y")], places[:1], places[1:])
    return ort.InferenceSession(body, providers=["CPUExecutionProvider"])


ON_DEVICE = Device("cpu", copy_out=ctypes.memmove)


@pytest.mark.parametrize(
    ("device", "is_divided"), [(None, False), (ON_DEVICE, False), (ON_DEVICE, True)]
)
def test_outputs_of_free_shapes_differ_from_call_to_call(
    device: Device | None, *, is_divided: bool
) -> None:
    bound, inputs = BoundSession(places_of_ones(), device), {"x": np.zeros((8, 1024), np.float32)}
    for count in (3, 0, 2, 1024):
        inputs["x"][...] = np.arange(1024) < count
        outputs = bound.predict_parts(inputs)[0] if is_divided else bound.predict(inputs)
        assert np.array_equal(outputs["y"], np.nonzero(inputs["x"]))


def test_a_device_s_outputs_of_free_shapes_return_into_locked_memory_that_grows() -> None:
    locked: dict[int, int] = {}
    locks = PageLocks(locked.__setitem__, locked.__delitem__)
    bound = BoundSession(places_of_ones(), Device("cpu", locks, ctypes.memmove))
    inputs, addresses = {"x": page_aligned((8, 1024), "float32")}, []
    for count in (3, 0, 2, 1024):
        inputs["x"][5] = np.arange(1024) < count
        outputs = bound.predict(inputs)
        assert np.array_equal(outputs["y"], np.nonzero(inputs["x"]))
        addresses.append(outputs["y"].ctypes.data)
    assert len(set(addresses[:3])) == 1
    assert locked[addresses[0]] < outputs["y"].nbytes <= locked[addresses[-1]]
    bound.forget()
    assert locked == {}
