"""What predictors have in common: zeros in a model's shape, and errors in one line."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.manifest import Port
from services.agent.pipeline import is_constant
from services.agent.predictors import TensorPlace


def zeros(
    places: Sequence[TensorPlace], ports: Sequence[Port], batch_size: int
) -> dict[str, npt.NDArray[Any]]:
    """Return zeros for one batch in the inputs' shapes, and constants in theirs.

    What the model leaves free the manifest's `ports` fill, by name or else in order; what both
    leave free is 1, and of a constant the batch.
    """
    filled = {}
    for number, place in enumerate(places):
        port = port_of(place.name, number, ports)
        wanted = port.shape if port is not None else ()
        shape = place.shape
        if len(wanted) == len(shape):
            shape = tuple(b if a < 0 else a for a, b in zip(shape, wanted, strict=True))
        if port is not None and is_constant(port):
            sizes = tuple(batch_size if size < 0 else size for size in shape)
            value = port.steps[0].parameters.get("value", 0)
            filled[place.name] = np.full(sizes, value, place.element_type)
            continue
        sizes = (batch_size, *(max(size, 1) for size in shape[1:])) if shape else ()
        filled[place.name] = np.zeros(sizes, place.element_type)
    return filled


def port_of(name: str, number: int, ports: Sequence[Port]) -> Port | None:
    """Return the manifest's port of a model's input: by name, or else in its place."""
    named = next((port for port in ports if port.layer_name == name), None)
    return named or (ports[number] if number < len(ports) else None)


def is_batched(name: str, ports: Sequence[Port]) -> bool:
    """Say whether an input's first dimension is the batch: a constant's need not be."""
    port = next((port for port in ports if port.layer_name == name), None)
    return port is None or not is_constant(port)


def first_line(error: BaseException) -> str:
    """Return an error's first line, at most 500 characters; its type where it says nothing."""
    return str(error).splitlines()[0][:500] if str(error) else type(error).__name__
