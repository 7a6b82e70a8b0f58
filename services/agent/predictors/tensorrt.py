"""TensorRT: engines built for this GPU and this version. Unverified: written where none is.

An engine is tied to the GPU and the version that built it; another one's is refused by TensorRT
itself. A predict call ends when its outputs are in the host's memory.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cuda

from schemas.level import Level
from services.agent.errors import BadOption, BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.predictors import Opened, OpenRequest, TensorPlace, Tensors
from services.agent.predictors.opening import Opening
from services.agent.predictors.options import check_known, count
from services.agent.predictors.shapes import first_line

_KNOWN = ("device_number",)


@dataclass(frozen=True, slots=True)
class Options:
    """Which GPU an engine runs on."""

    device_number: int


def options_of(given: Mapping[str, Any], device: str) -> Options:
    """Return the options of a request. Raises BadOption."""
    check_known(given, _KNOWN)
    if device not in ("gpu", "cuda"):
        raise BadOption("device", device, "gpu: an engine runs on one only")
    number = given.get("device_number", 0)
    return Options(0 if number == 0 else count(given, "device_number", 1))


def open_model(request: OpenRequest) -> "TensorRtPredictor":
    """Open an engine. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    options = options_of(request.options, request.device)
    opening = Opening(request)
    try:
        _did(cuda.cudaSetDevice(options.device_number))
        engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(request.graph)
    except (RuntimeError, PredictFailed) as error:
        raise OpenFailed(request.model.name, first_line(error)) from error
    if engine is None:
        raise OpenFailed(request.model.name, "no engine of this TensorRT for this GPU")
    predictor = TensorRtPredictor(request, options, engine)
    opening.loaded()
    opening.run_first(predictor)
    return predictor


class TensorRtPredictor:
    """An opened engine with its buffers on the GPU."""

    def __init__(self, request: OpenRequest, options: Options, engine: Any) -> None:
        self._request = request
        self._options = options
        self._engine = engine
        self._context = engine.create_execution_context()
        #: address and size of each tensor's memory on the GPU
        self._buffers: dict[str, tuple[int, int]] = {}
        names = [engine.get_tensor_name(n) for n in range(engine.num_io_tensors)]
        is_input = {n: engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT for n in names}
        self._inputs = [_place(engine, name) for name in names if is_input[name]]
        self._outputs = [_place(engine, name) for name in names if not is_input[name]]
        self._stream = _did(cuda.cudaStreamCreate())
        self.opened = self._opened()
        for place in self._inputs:
            self._check_batch(place)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        for place in self._inputs:
            array = inputs.get(place.name)
            if array is None or array.dtype.name != place.element_type:
                raise PredictFailed(f"input {place.name} must be {place.element_type}")
            if not self._context.set_input_shape(place.name, array.shape):
                raise PredictFailed(f"input {place.name} cannot be {list(array.shape)}")
            self._copy(place.name, np.ascontiguousarray(array), to_device=True)
        outputs = {
            place.name: np.empty(
                tuple(self._context.get_tensor_shape(place.name)), place.element_type
            )
            for place in self._outputs
        }
        for name, array in outputs.items():
            self._context.set_tensor_address(name, self._room(name, array.nbytes))
        if not self._context.execute_async_v3(self._stream):
            raise PredictFailed("the engine did not run")
        for name, array in outputs.items():
            self._copy(name, array, to_device=False)
        _did(cuda.cudaStreamSynchronize(self._stream))
        return outputs

    def close(self) -> None:
        """Free the buffers, the stream and the engine."""
        for address, _ in self._buffers.values():
            _did(cuda.cudaFree(address))
        self._buffers.clear()
        _did(cuda.cudaStreamDestroy(self._stream))
        del self._context, self._engine

    def _copy(self, name: str, array: Any, *, to_device: bool) -> None:
        address = self._room(name, array.nbytes)
        if to_device:
            self._context.set_tensor_address(name, address)
            kind = cuda.cudaMemcpyKind.cudaMemcpyHostToDevice
            ends = (address, array.ctypes.data)
        else:
            kind = cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost
            ends = (array.ctypes.data, address)
        _did(cuda.cudaMemcpyAsync(*ends, array.nbytes, kind, self._stream))

    def _room(self, name: str, size: int) -> int:
        """Return memory on the GPU for a tensor, made anew only when it must grow."""
        address, held = self._buffers.get(name, (0, 0))
        if held >= size > 0:
            return address
        if address:
            _did(cuda.cudaFree(address))
        address = int(_did(cuda.cudaMalloc(max(size, 1))))
        self._buffers[name] = (address, size)
        return address

    def _check_batch(self, place: TensorPlace) -> None:
        batch_size = self._request.batch_size
        least, _, most = self._engine.get_tensor_profile_shape(place.name, 0)
        if place.shape and not least[0] <= batch_size <= most[0]:
            raise BatchSizeUnsupported(batch_size, place.name, place.shape)

    def _opened(self) -> Opened:
        properties = _did(cuda.cudaGetDeviceProperties(self._options.device_number))
        return Opened(
            framework="tensorrt",
            framework_version=trt.__version__,
            inputs=tuple(self._inputs),
            outputs=tuple(self._outputs),
            device="gpu",
            provider=properties.name.decode(),
            # Which precision each layer got was decided when the engine was built.
            precision=f"as built ({'+'.join(sorted({p.element_type for p in self._inputs}))} in)",
            threads=1,
            options=asdict(self._options),
            deepest_level=Level.MODEL,
            device_memory_bytes=int(self._engine.device_memory_size_v2),
        )


def _place(engine: Any, name: str) -> TensorPlace:
    shape = tuple(int(size) for size in engine.get_tensor_shape(name))
    return TensorPlace(name, shape, np.dtype(trt.nptype(engine.get_tensor_dtype(name))).name)


def _did(answer: Any) -> Any:
    """Return what a CUDA call returned after its error code. Raises PredictFailed."""
    error, *values = answer
    if error != cuda.cudaError_t.cudaSuccess:
        raise PredictFailed(f"CUDA: {error.name}")
    return values[0] if values else None
