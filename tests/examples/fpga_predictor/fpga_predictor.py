"""An example of a predictor of one's own: an FPGA, simulated, that multiplies 8-bit matrices."""

import os
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.agent import Accelerator
from schemas.level import Level
from services.agent.errors import BadOption, OpenFailed, PredictFailed
from services.agent.predictors import Opened, OpenRequest, Predictor, TensorPlace, Tensors

VERSION = "0.1.0"
MAGIC = b"FPGA"
_HEADER = struct.Struct("<4sIIf")
OPTION_NAMES = ("clock_mhz",)
_CLOCKS_MHZ = range(50, 501)
_BOARDS = "FPGA_EXAMPLE_BOARDS"
"""How many boards are simulated; a real package asks its driver."""


class Device:
    """A simulated board: configured with a bitfile, it multiplies rows by its matrix."""

    def __init__(self) -> None:
        self.weights: npt.NDArray[np.int8] | None = None
        self.scale = 1.0

    def configure(self, bitfile: bytes) -> None:
        """Load a bitfile. Raises ValueError for anything else."""
        if len(bitfile) < _HEADER.size:
            raise ValueError("the bitfile ends in its header")
        magic, rows, columns, self.scale = _HEADER.unpack_from(bitfile)
        if magic != MAGIC:
            raise ValueError("no bitfile")
        if len(bitfile) != _HEADER.size + rows * columns:
            raise ValueError("the bitfile is cut")
        held = np.frombuffer(bitfile, np.int8, offset=_HEADER.size)
        self.weights = held.reshape(rows, columns)

    def multiply(self, rows: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
        """Return rows x weights, and only once the device has finished."""
        if self.weights is None:
            raise RuntimeError("the device is not configured")
        product: npt.NDArray[np.int32] = rows.astype(np.int32) @ self.weights.astype(np.int32)
        return product

    def release(self) -> None:
        """Forget the configuration, so that somebody else may use the board."""
        self.weights = None


def find_devices() -> Mapping[str, Sequence[Accelerator]]:
    """Return the boards of this machine as the device `fpga`. Raises ValueError for no number."""
    boards = int(os.environ.get(_BOARDS, "1"))
    return {"fpga": [Accelerator(name="simulated board", kind="fpga")] * boards} if boards else {}


def open_model(request: OpenRequest) -> Predictor:
    """Configure the device with the model's bitfile. Raises BadOption, OpenFailed."""
    for name, value in request.options.items():
        if name not in OPTION_NAMES or value not in _CLOCKS_MHZ:
            raise BadOption(name, value, "clock_mhz from 50 to 500")
    device = Device()
    started = time.monotonic_ns()
    try:
        device.configure(request.graph)
    except ValueError as error:
        raise OpenFailed(request.model.name, str(error)) from error
    predictor = FpgaPredictor(request, device)
    load_ns = time.monotonic_ns() - started
    predictor.first_run(load_ns)
    return predictor


class FpgaPredictor:
    """A configured device."""

    def __init__(self, request: OpenRequest, device: Device) -> None:
        self._request = request
        self._device = device
        self._input = request.model.inputs[0].layer_name
        self._output = request.model.outputs[0].layer_name
        self.opened = self._opened(0, 0)

    def first_run(self, load_ns: int) -> None:
        """Predict zeros once: the device is warm after that."""
        place = self.opened.inputs[0]
        zeros = np.zeros((self._request.batch_size, *place.shape[1:]), np.float32)
        started = time.monotonic_ns()
        self.predict({self._input: zeros})
        self.opened = self._opened(load_ns, time.monotonic_ns() - started)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        try:
            rows: npt.NDArray[Any] = np.asarray(inputs[self._input], np.float32)
            scale = float(np.abs(rows).max(initial=0.0)) / 127 or 1.0
            product = self._device.multiply(np.rint(rows / scale).astype(np.int8))
        except (KeyError, ValueError, RuntimeError) as error:
            raise PredictFailed(str(error)) from error
        return {self._output: product.astype(np.float32) * np.float32(scale * self._device.scale)}

    def close(self) -> None:
        """Give the device back."""
        self._device.release()

    def _opened(self, load_ns: int, first_run_ns: int) -> Opened:
        assert self._device.weights is not None
        rows, columns = self._device.weights.shape
        return Opened(
            framework="fpga",
            framework_version=VERSION,
            inputs=(TensorPlace(self._input, (-1, rows), "float32"),),
            outputs=(TensorPlace(self._output, (-1, columns), "float32"),),
            device="fpga",
            provider="simulated board",
            precision="int8 (quantized float32)",
            threads=1,
            options={"clock_mhz": 200, **self._request.options},
            load_ns=load_ns,
            first_run_ns=first_run_ns,
            deepest_level=Level.MODEL,
        )
