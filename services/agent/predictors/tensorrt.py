"""TensorRT: engines built for this GPU and this version. Unverified: written without a GPU.

An engine works only with the GPU and the version that built it; TensorRT refuses any other. A
predict call ends when its outputs are in the host's memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cuda

from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.errors import BadOption, BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.predictors import (
    CallPart,
    Opened,
    OpenRequest,
    TensorPlace,
    Tensors,
    call_parts,
)
from services.agent.predictors.cuda_runtime import cuda_page_locks
from services.agent.predictors.opening import Opening
from services.agent.predictors.options import check_known, count
from services.agent.predictors.page_locking import PAGEABLE, page_aligned
from services.agent.predictors.shapes import first_line


@dataclass(frozen=True, slots=True)
class Options:
    """The GPU that an engine runs on."""

    device_number: int


def options_of(requested: Mapping[str, Any], device: str) -> Options:
    """Return the options of a request. Raises BadOption."""
    check_known(requested, "tensorrt")
    if device not in ("gpu", "cuda"):
        raise BadOption("device", device, "gpu: a TensorRT engine runs only on a GPU")
    number = requested.get("device_number", 0)
    return Options(0 if number == 0 else count(requested, "device_number", 1))


def open_model(request: OpenRequest) -> "TensorRtPredictor":
    """Open an engine. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    options = options_of(request.options, request.device)
    opening = Opening(request)
    try:
        _checked(cuda.cudaSetDevice(options.device_number))
        engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(request.graph)
    except (RuntimeError, PredictFailed) as error:
        raise OpenFailed(request.model.name, first_line(error)) from error
    if engine is None:
        raise OpenFailed(request.model.name, "not an engine of this TensorRT version for this GPU")
    predictor = TensorRtPredictor(request, options, engine)
    opening.mark_loaded()
    opening.run_first(predictor)
    # Its arrays have no pages of their own: they would count as refused.
    predictor.forget_arrays()
    return predictor


class TensorRtPredictor:
    """An opened engine with its buffers on the GPU."""

    def __init__(self, request: OpenRequest, options: Options, engine: Any) -> None:
        """Create the context of an `engine`, opened for a `request` with these `options`.

        Raises BatchSizeUnsupported, PredictFailed.
        """
        self._engine = engine
        self._context = engine.create_execution_context()
        #: address and size of each tensor's memory on the GPU
        self._buffers: dict[str, tuple[int, int]] = {}
        self._locks = cuda_page_locks()
        #: by batch: its input arrays, and those of its outputs
        self._bound: dict[int, tuple[Tensors, dict[str, Any]]] = {}
        names = list(map(engine.get_tensor_name, range(engine.num_io_tensors)))
        is_input = {n: engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT for n in names}
        self._inputs = [_place(engine, name) for name in names if is_input[name]]
        self._outputs = [_place(engine, name) for name in names if not is_input[name]]
        self._stream = _checked(cuda.cudaStreamCreate())
        properties = _checked(cuda.cudaGetDeviceProperties(options.device_number))
        self.opened = Opened(
            framework="tensorrt",
            framework_version=trt.__version__,
            inputs=tuple(self._inputs),
            outputs=tuple(self._outputs),
            device="gpu",
            provider=properties.name.decode(),
            # The precision of each layer was decided when the engine was built.
            precision=f"as built ({'+'.join(sorted({p.element_type for p in self._inputs}))} in)",
            threads=1,
            options=asdict(options),
            deepest_level=Level.MODEL,
            device_memory_bytes=int(engine.device_memory_size_v2),
            host_memory=PAGEABLE,
            output_memory=PAGEABLE,
        )
        for place in self._inputs:
            smallest, _, largest = engine.get_tensor_profile_shape(place.name, 0)
            if place.shape and not smallest[0] <= request.batch_size <= largest[0]:
                raise BatchSizeUnsupported(request.batch_size, place.name, place.shape)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        self._copy_in(inputs)
        outputs = self._outputs_for(inputs)
        self._start(outputs)
        self._copy_out(outputs)
        self._wait()
        return outputs

    def predict_parts(self, inputs: Tensors) -> tuple[Tensors, Sequence[CallPart]]:
        """Return the outputs for one batch, and when the call's parts ran. Raises PredictFailed.

        Each part is waited for before the next one begins, by the host's clock.
        """
        ends_ns = [now_ns()]
        self._copy_in(inputs)
        self._wait()
        ends_ns.append(now_ns())
        outputs = self._outputs_for(inputs)
        self._start(outputs)
        self._wait()
        ends_ns.append(now_ns())
        self._copy_out(outputs)
        self._wait()
        ends_ns.append(now_ns())
        return outputs, call_parts(ends_ns)

    def _copy_in(self, inputs: Tensors) -> None:
        """Begin to copy a batch to the GPU."""
        for place in self._inputs:
            array = inputs.get(place.name)
            if array is None or array.dtype.name != place.element_type:
                raise PredictFailed(f"input {place.name} must be {place.element_type}")
            if not self._context.set_input_shape(place.name, array.shape):
                raise PredictFailed(f"input {place.name} cannot be {list(array.shape)}")
            self._copy(place.name, np.ascontiguousarray(array), to_device=True)

    def _start(self, outputs: Mapping[str, Any]) -> None:
        """Start the engine behind the copies of its inputs."""
        for name, array in outputs.items():
            self._context.set_tensor_address(name, self._buffer(name, array.nbytes))
        if not self._context.execute_async_v3(self._stream):
            raise PredictFailed("TensorRT could not start the engine")

    def _copy_out(self, outputs: Mapping[str, Any]) -> None:
        """Begin to copy the outputs into their arrays, behind the engine."""
        for name, array in outputs.items():
            self._copy(name, array, to_device=False)

    def _wait(self) -> None:
        """Wait until the GPU has ended what was begun."""
        _checked(cuda.cudaStreamSynchronize(self._stream))

    def forget_arrays(self) -> None:
        """Release the arrays of earlier predict calls, and unlock their pages."""
        self._bound.clear()
        if self._locks is not None:
            self._locks.release()

    def _outputs_for(self, inputs: Tensors) -> dict[str, Any]:
        """Return arrays for the outputs of these inputs, page-locked like them, once each."""
        bound_inputs, outputs = self._bound.get(id(inputs), (inputs, {}))
        shapes = {
            place.name: tuple(self._context.get_tensor_shape(place.name)) for place in self._outputs
        }
        if shapes == {name: array.shape for name, array in outputs.items()}:
            return outputs
        outputs = {
            place.name: page_aligned(shapes[place.name], place.element_type)
            for place in self._outputs
        }
        self._bound[id(inputs)] = bound_inputs, outputs
        if self._locks is not None:
            for array in (*inputs.values(), *outputs.values()):
                self._locks.lock(array)
            memory, reason = self._locks.host_memory, self._locks.refusal
            self.opened = replace(
                self.opened, host_memory=memory, output_memory=memory, memory_reason=reason
            )
        return outputs

    def close(self) -> None:
        """Free the buffers, the stream and the engine."""
        self.forget_arrays()
        for address, _ in self._buffers.values():
            _checked(cuda.cudaFree(address))
        self._buffers.clear()
        _checked(cuda.cudaStreamDestroy(self._stream))
        del self._context, self._engine

    def _copy(self, name: str, array: Any, *, to_device: bool) -> None:
        address = self._buffer(name, array.nbytes)
        if to_device:
            self._context.set_tensor_address(name, address)
            kind = cuda.cudaMemcpyKind.cudaMemcpyHostToDevice
            ends = (address, array.ctypes.data)
        else:
            kind = cuda.cudaMemcpyKind.cudaMemcpyDeviceToHost
            ends = (array.ctypes.data, address)
        _checked(cuda.cudaMemcpyAsync(*ends, array.nbytes, kind, self._stream))

    def _buffer(self, name: str, size_bytes: int) -> int:
        """Return the address of a tensor's GPU memory, allocated again only when it must grow."""
        address, buffer_bytes = self._buffers.get(name, (0, 0))
        if buffer_bytes >= size_bytes > 0:
            return address
        if address:
            _checked(cuda.cudaFree(address))
        address = int(_checked(cuda.cudaMalloc(max(size_bytes, 1))))
        self._buffers[name] = (address, size_bytes)
        return address


def _place(engine: Any, name: str) -> TensorPlace:
    shape = tuple(int(size) for size in engine.get_tensor_shape(name))
    return TensorPlace(name, shape, np.dtype(trt.nptype(engine.get_tensor_dtype(name))).name)


def _checked(result: Any) -> Any:
    """Return what a CUDA call returned after its error code. Raises PredictFailed."""
    error, *values = result
    if error != cuda.cudaError_t.cudaSuccess:
        raise PredictFailed(f"CUDA: {error.name}")
    return values[0] if values else None
