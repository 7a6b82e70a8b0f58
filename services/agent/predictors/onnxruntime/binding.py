"""Arrays that are bound to a session of ONNX Runtime once, on a GPU in page-locked memory."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from mlscope.tracing.clock import now_ns
from services.agent.predictors import MAX_BOUND, CallPart, TensorPlace, Tensors, call_parts
from services.agent.predictors.boundary import PREDICTING
from services.agent.predictors.page_locking import PageLocks, page_aligned

_ELEMENT_TYPES: Mapping[str, str] = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(uint8)": "uint8",
    "tensor(int8)": "int8",
    "tensor(uint16)": "uint16",
    "tensor(int16)": "int16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(bool)": "bool",
}


@dataclass(frozen=True, slots=True)
class Device:
    """The memory that a session computes in, other than the host's."""

    #: ORT's name of it
    name: str
    #: locks the pages of arrays that are bound; None: they stay pageable
    locks: PageLocks | None = None
    #: copies from an address of the device's memory: `(to, from, bytes)`; None: ORT copies into
    #: new arrays
    copy_out: Callable[[int, int, int], object] | None = None


@dataclass(slots=True)
class Binding:
    """The arrays of one batch, bound to a session."""

    inputs: Tensors
    #: ORT's own
    binding: Any
    #: the output arrays; None where their shapes are free
    outputs: dict[str, npt.NDArray[Any]] | None
    #: memory of the host for outputs of free shapes, by name
    buffers: dict[str, npt.NDArray[np.uint8]] = field(default_factory=dict)
    #: ORT's own, of inputs and outputs in the device's memory; None until a call is divided
    divided: Any = None
    #: those inputs, by name
    on_device: dict[str, Any] = field(default_factory=dict)


class BoundSession:
    """A session whose input arrays are bound the first time they are seen.

    ORT reads inputs on a CPU in place. It copies those of another device when they are bound
    (onnxruntime issue #5857): there each call binds them anew, and ORT launches the model while it
    copies. Outputs of known shape are bound to arrays of their own; they are overwritten by the
    next call with the same inputs. Those of free shapes are bound anew for each call: ORT would
    want the next one to have the shape of the last. From another device they are copied into
    memory that is kept, too, and grows.
    """

    def __init__(self, session: ort.InferenceSession, device: Device | None = None) -> None:
        """Bind arrays to a `session` that computes on a `device`; None is the host's CPU."""
        self.session = session
        self.device = device
        #: whether outputs return into arrays that are kept; known once a call was made
        self.keeps_outputs = False
        #: the types of the outputs, by name
        self._output_types = {
            place.name: _ELEMENT_TYPES.get(place.type) for place in session.get_outputs()
        }
        #: copies outputs that ORT left on the device; None: ORT copies them into new arrays
        self._copy_out = device.copy_out if device and all(self._output_types.values()) else None
        #: where ORT allocates outputs of free shapes
        self._allocating_device = device.name if device and self._copy_out else "cpu"
        self._run = session.run_with_iobinding
        self._bindings: dict[int, Binding] = {}
        #: inputs on the device by name, shape and type, which every divided call copies anew
        self._device_values: dict[tuple[str, tuple[int, ...], str], Any] = {}

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        with PREDICTING:
            bound = self._bindings.get(id(inputs)) or self._bind(inputs)
            if self.device is not None:
                for name, array in inputs.items():
                    bound.binding.bind_cpu_input(name, array)
            if bound.outputs is None:
                self._let_allocate(bound.binding, self._allocating_device)
            self._run(bound.binding)
            if self.device is not None:
                # The device's memory is free until the next call.
                bound.binding.clear_binding_inputs()
            return bound.outputs or self._copied_out(bound, bound.binding)

    def predict_parts(self, inputs: Tensors) -> tuple[Tensors, Sequence[CallPart]]:
        """Return the outputs for one batch, and when the call's parts ran. Raises PredictFailed.

        Each part is waited for before the next one begins, by the host's clock. Only for a session
        with a device.
        """
        assert self.device is not None
        with PREDICTING:
            bound = self._bindings.get(id(inputs)) or self._bind(inputs)
            if bound.divided is None:
                self._divide(bound, self.device.name)
            ends_ns = [now_ns()]
            for name, value in bound.on_device.items():
                value.update_inplace(inputs[name])
            bound.divided.synchronize_inputs()
            if bound.outputs is None:
                self._let_allocate(bound.divided, self.device.name)
            ends_ns.append(now_ns())
            self._run(bound.divided)
            bound.divided.synchronize_outputs()
            ends_ns.append(now_ns())
            outputs = self._copied_out(bound, bound.divided)
            ends_ns.append(now_ns())
        return outputs, call_parts(ends_ns)

    def forget(self) -> None:
        """Forget every binding, and unlock its pages."""
        self._bindings.clear()
        self._device_values.clear()
        if self.device is not None and self.device.locks is not None:
            self.device.locks.release()

    def drop(self) -> None:
        """Forget every binding and the session."""
        self.forget()
        del self._run, self.session

    def _bind(self, inputs: Tensors) -> Binding:
        if len(self._bindings) >= MAX_BOUND:
            self._bindings.pop(next(iter(self._bindings)))
        binding = self.session.io_binding()
        if self.device is None:
            for name, array in inputs.items():
                binding.bind_cpu_input(name, array)
        outputs = self._bind_outputs(binding, len(next(iter(inputs.values()))))
        self.keeps_outputs = outputs is not None or self._copy_out is not None
        # A binding has only the addresses of arrays, so they must be stored with it.
        if self.device is not None and self.device.locks is not None:
            for array in (*inputs.values(), *(outputs or {}).values()):
                self.device.locks.lock(array)
        bound = Binding(inputs, binding, outputs)
        self._bindings[id(inputs)] = bound
        return bound

    def _divide(self, bound: Binding, device: str) -> None:
        """Bind inputs and outputs in the device's memory, where divided calls find them."""
        bound.divided = self.session.io_binding()
        for name, array in bound.inputs.items():
            layout = name, array.shape, str(array.dtype)
            if layout not in self._device_values:
                self._device_values[layout] = ort.OrtValue.ortvalue_from_numpy(array, device)
            value = bound.on_device[name] = self._device_values[layout]
            bound.divided.bind_ortvalue_input(name, value)
        self._let_allocate(bound.divided, device)

    def _let_allocate(self, binding: Any, device: str) -> None:
        """Let ORT allocate a binding's outputs in the memory of a `device`, at the next run."""
        binding.clear_binding_outputs()
        for name in self._output_types:
            binding.bind_output(name, device)

    def _bind_outputs(self, binding: Any, batch: int) -> dict[str, npt.NDArray[Any]] | None:
        """Bind outputs to arrays of a `batch`; return these, or None where sizes aren't known."""
        places = [tensor_place(place) for place in self.session.get_outputs()]
        # A state that the model returns has a fixed first size of its own.
        shapes = [
            (batch if place.shape[:1] in ((), (-1,), (1,)) else place.shape[0], *place.shape[1:])
            for place in places
        ]
        if any(-1 in shape or not place.shape for place, shape in zip(places, shapes, strict=True)):
            return None
        outputs = {}
        for place, shape in zip(places, shapes, strict=True):
            array = outputs[place.name] = page_aligned(shape, place.element_type)
            address = array.__array_interface__["data"][0]
            binding.bind_output(place.name, "cpu", 0, array.dtype, shape, address)
        return outputs

    def _copied_out(self, bound: Binding, binding: Any) -> Tensors:
        """Return the outputs of a `binding`'s run, by name, once they are in the host's memory."""
        if self._copy_out is None:
            return dict(zip(self._output_types, binding.copy_outputs_to_cpu(), strict=True))
        arrays = {}
        # A run returns when the device has ended: nothing is left to wait for.
        for (name, kind), value in zip(
            self._output_types.items(), binding.get_outputs(), strict=True
        ):
            array = (
                self._kept_array(bound.buffers, name, value.shape(), np.dtype(kind))
                if bound.outputs is None
                else bound.outputs[name]
            )
            if array.nbytes:
                self._copy_out(array.ctypes.data, value.data_ptr(), array.nbytes)
            arrays[name] = array
        return arrays

    def _kept_array(
        self,
        buffers: dict[str, npt.NDArray[np.uint8]],
        name: str,
        shape: Sequence[int],
        kind: np.dtype[Any],
    ) -> npt.NDArray[Any]:
        """Return an output's array of a `shape` in its buffer, which is made anew to grow."""
        size_bytes, buffer = math.prod(shape) * kind.itemsize, buffers.get(name)
        if buffer is None or buffer.nbytes < size_bytes:
            # Twice as much: pages are locked seldom, also where each call has a larger output.
            least_bytes = 4096 if buffer is None else 2 * buffer.nbytes
            buffer = buffers[name] = page_aligned((max(size_bytes, least_bytes),), "uint8")
            if self.device is not None and self.device.locks is not None:
                self.device.locks.lock(buffer)
        return buffer[:size_bytes].view(kind).reshape(tuple(shape))


def tensor_place(place: Any) -> TensorPlace:
    """Describe one of ORT's NodeArgs; free dimensions are -1."""
    shape = tuple(size if isinstance(size, int) and size >= 0 else -1 for size in place.shape)
    return TensorPlace(place.name, shape, _ELEMENT_TYPES.get(place.type, "float32"))
