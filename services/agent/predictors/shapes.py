"""Shared by predictors: input arrays in a model's shapes, and errors in one line."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mlscope.manifests.ports import is_constant
from schemas.manifest import Port
from services.agent.predictors import TensorPlace

_ADVICE = (
    "CUDA kernel errors might be asynchronously reported",
    "Compile with `TORCH_USE_",
    "Device-side assertion",
    "For debugging consider passing",
    "HIP kernel errors might be asynchronously reported",
    "Search for `cuda",
)
"""How lines of PyTorch begin that follow the reason of a GPU's error, and are none."""
_TORCHSCRIPT_FAILED = "The following operation failed in the TorchScript interpreter"


def zeros(
    places: Sequence[TensorPlace], ports: Sequence[Port], batch_size: int
) -> dict[str, npt.NDArray[Any]]:
    """Return zeros for one batch in the shapes of the inputs; constants have their value.

    `places`: the model's inputs; `ports`: the manifest's, which fill sizes that the model leaves
    free, by name or else in order. A size that both leave free is 1, in a constant `batch_size`.
    """
    filled = {}
    for number, place in enumerate(places):
        port = port_of(place.name, number, ports)
        port_shape = port.shape if port is not None else ()
        shape = place.shape
        if len(port_shape) == len(shape):
            shape = tuple(b if a < 0 else a for a, b in zip(shape, port_shape, strict=True))
        if port is not None and is_constant(port):
            sizes = tuple(batch_size if size < 0 else size for size in shape)
            value = port.steps[0].parameters.get("value", 0)
            filled[place.name] = np.full(sizes, value, place.element_type)
            continue
        sizes = (batch_size, *(max(size, 1) for size in shape[1:])) if shape else ()
        filled[place.name] = np.zeros(sizes, place.element_type)
    return filled


def port_of(name: str, number: int, ports: Sequence[Port]) -> Port | None:
    """Return the port of an input: that with its `name`, or else that with its `number`.

    `ports` are the manifest's. None without either.
    """
    named = next((port for port in ports if port.layer_name == name), None)
    return named or (ports[number] if number < len(ports) else None)


def is_batched(name: str, ports: Sequence[Port]) -> bool:
    """Say whether the first dimension of the input `name` is the batch; a constant's is not."""
    port = next((port for port in ports if port.layer_name == name), None)
    return port is None or not is_constant(port)


def without_bfloat16(array: Any) -> Any:
    """Return an array on the host; one of bfloat16 is converted to float32.

    NumPy has no bfloat16 of its own, so post-processing could not compute with it.
    """
    # Asking for a type's name takes a microsecond, its kind no time; other packages' have kind V.
    if array.dtype.kind == "V" and array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return array


def first_line(error: BaseException) -> str:
    """Return an error's first line, at most 500 characters; its type where it has no text.

    A line that ends with a colon announces the next one, which is added. TorchScript puts the cause
    into the last line, behind a sentence and its own traceback, and PyTorch's advice on errors of a
    GPU behind that.
    """
    lines = reasons_in(str(error))
    if not lines:
        return type(error).__name__
    if lines[0].startswith(_TORCHSCRIPT_FAILED):
        return lines[-1][:500]
    return " ".join(lines[: 2 if lines[0].endswith(":") else 1])[:500]


def reasons_in(text: str) -> list[str]:
    """Return the lines of an error's `text` that are not empty, without PyTorch's advice."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(_ADVICE)]
