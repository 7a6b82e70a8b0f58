"""ONNX Runtime: any of its providers, with inputs and outputs bound once.

The measured session is never profiled, as profiling costs about 6 us a node. A capture of layers
opens a twin session with ORT's profiler on, for one block, and reads the profile afterwards.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnxruntime as ort

from mlscope.importing.onnxruntime.events import bodies_note
from mlscope.tracing.clock import epoch_offset_ns
from schemas.level import Level
from services.agent.errors import BatchSizeUnsupported
from services.agent.machine.cores import kept_on
from services.agent.machine.noise import usable_core_numbers
from services.agent.predictors import (
    MAX_BOUND,
    Layer,
    LayerCapture,
    Opened,
    OpenRequest,
    TensorPlace,
    Tensors,
)
from services.agent.predictors.boundary import PREDICTING, opening_model
from services.agent.predictors.cuda_runtime import NO_LOCKS, cuda_page_locks
from services.agent.predictors.onnxruntime.graph import graph_of
from services.agent.predictors.onnxruntime.layers import LayerNames, runs_of
from services.agent.predictors.onnxruntime.options import Options, options_of
from services.agent.predictors.opening import Opening
from services.agent.predictors.page_locking import PAGEABLE, PageLocks, page_aligned
from services.agent.predictors.shapes import is_batched

_ROUNDED_NOTE = "layer times are rounded down to whole microseconds, so their sums are slightly low"
_FULL_NOTE = (
    "a profile was full: the query that waited for the next one was slow, but not its layers"
)
_MAX_EVENTS = 500_000
"""Events of one profile: they are held in memory, and ORT stops recording at 1,000,000."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The arrays of one batch, bound to a session."""

    inputs: Tensors
    #: ORT's own
    binding: Any
    #: the output arrays; None where ORT allocates them
    outputs: dict[str, npt.NDArray[Any]] | None
    #: copies of the inputs in the device's memory, by name; empty on a CPU
    on_device: Mapping[str, Any]


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
_OPTIMIZATIONS: Mapping[str, Any] = {
    "disable": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
_DEVICES = {"CUDAExecutionProvider": "cuda", "TensorrtExecutionProvider": "cuda"}
"""ORT's names of the memory of providers that do not compute in the host's."""
_QUANTIZED = (b"QLinearConv", b"QLinearMatMul", b"DequantizeLinear", b"MatMulInteger")


def open_model(request: OpenRequest) -> "OnnxRuntimePredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    options = options_of(request.options, request.device, ort.get_available_providers())
    opening = Opening(request)
    session = _session(request, options, _session_options(options))
    opening.mark_loaded()
    for place in session.get_inputs():
        size = place.shape[0] if place.shape else None
        is_fixed = isinstance(size, int) and size not in (-1, request.batch_size)
        if is_fixed and is_batched(place.name, request.model.inputs):
            raise BatchSizeUnsupported(request.batch_size, place.name, place.shape)
    predictor = OnnxRuntimePredictor(request, options, _bound(session))
    opening.run_first(predictor)
    predictor.forget_arrays()
    return predictor


class OnnxRuntimePredictor:
    """An opened ONNX model."""

    def __init__(self, request: OpenRequest, options: Options, bound: "BoundSession") -> None:
        """Take the `bound` session that was opened for a `request` with these `options`."""
        self._request = request
        self._options = options
        self._bound = bound
        self._names: LayerNames | None = None
        session = bound.session
        inputs = tuple(tensor_place(place) for place in session.get_inputs())
        provider = session.get_providers()[0]
        is_on_gpu = bool(bound.device)
        types = [place.element_type for place in inputs]
        precision = next((name for name in types if name.startswith("float")), "float32")
        if any(name in request.graph for name in _QUANTIZED):
            precision = f"int8 (quantized {precision})"
        elif is_on_gpu and precision == "float32":
            precision = "float32 (tf32 allowed)"
        self.opened = Opened(
            framework="onnxruntime",
            framework_version=ort.__version__,
            inputs=inputs,
            outputs=tuple(tensor_place(place) for place in session.get_outputs()),
            device="gpu" if is_on_gpu else "cpu",
            provider=provider,
            precision=precision,
            threads=options.threads,
            options=options.by_name(),
            deepest_level=Level.FRAMEWORK,
        )
        #: returns the outputs for one batch; see `Predictor.predict`
        self.predict = self._predict_on_device if is_on_gpu else bound.predict

    def _predict_on_device(self, inputs: Tensors) -> Tensors:
        """Predict, and note the kinds of the host's memory once they are known."""
        outputs = self._bound.predict(inputs)
        if not self.opened.host_memory:
            locks = self._bound.locks
            memory, reason = (
                (PAGEABLE, NO_LOCKS) if locks is None else (locks.host_memory, locks.refusal)
            )
            self.opened = replace(
                self.opened,
                host_memory=memory,
                # Outputs of free shapes return into new arrays.
                output_memory=memory if self._bound.keeps_outputs else PAGEABLE,
                memory_reason=reason,
            )
        return outputs

    def forget_arrays(self) -> None:
        """Release the arrays of earlier predict calls."""
        self._bound.forget()
        self.opened = replace(self.opened, host_memory="", output_memory="", memory_reason="")

    def layers(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin a capture on a twin session. Raises OpenFailed, PredictFailed."""
        request, options = self._request, self._options
        if self._names is None:
            # ORT saves the graph that it executes while it opens a session.
            with tempfile.TemporaryDirectory(dir=request.scratch) as folder:
                path = Path(folder) / "executed.onnx"
                settings = _session_options(options)
                settings.optimized_model_filepath = str(path)
                _session(request, options, settings)
                executed = graph_of(path.read_bytes())
            self._names = LayerNames(graph_of(request.graph), executed)
        return LayerTwin(request, options, self._names, warmed_with)

    def close(self) -> None:
        """Free the session."""
        self._bound.drop()
        del self._bound, self.predict


class BoundSession:
    """A session whose input arrays are bound the first time they are seen.

    ORT reads inputs on a CPU in place. It copies those of another device only when they are bound
    (onnxruntime issue #5857): there each call copies them anew, into memory bound once. Outputs of
    known shape are bound to arrays of their own; they are overwritten by the next call with the
    same inputs.
    """

    def __init__(
        self, session: ort.InferenceSession, device: str = "", locks: PageLocks | None = None
    ) -> None:
        """Bind arrays to a `session`; `device` is ORT's name of its memory, '' for the host's.

        Arrays of a device are page-locked with its `locks`, where there are any.
        """
        self.session = session
        self.locks = locks
        self.device = device
        #: whether outputs return into arrays that are kept; known once a call was made
        self.keeps_outputs = False
        self._run = session.run_with_iobinding
        self._bindings: dict[int, Binding] = {}
        #: the inputs on the device by name, shape and type, which every call copies anew
        self._device_values: dict[tuple[str, tuple[int, ...], str], Any] = {}

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        with PREDICTING:
            bound = self._bindings.get(id(inputs)) or self._bind(inputs)
            for name, value in bound.on_device.items():
                value.update_inplace(inputs[name])
            self._run(bound.binding)
        if bound.outputs is not None:
            return bound.outputs
        names = [place.name for place in self.session.get_outputs()]
        return dict(zip(names, bound.binding.copy_outputs_to_cpu(), strict=True))

    def forget(self) -> None:
        """Forget every binding, and unlock its pages."""
        self._bindings.clear()
        self._device_values.clear()
        if self.locks is not None:
            self.locks.release()

    def drop(self) -> None:
        """Forget every binding and the session."""
        self.forget()
        del self._run, self.session

    def _bind(self, inputs: Tensors) -> Binding:
        if len(self._bindings) >= MAX_BOUND:
            self._bindings.pop(next(iter(self._bindings)))
        binding = self.session.io_binding()
        on_device = {}
        for name, array in inputs.items():
            if not self.device:
                binding.bind_cpu_input(name, array)
                continue
            layout = name, array.shape, str(array.dtype)
            if layout not in self._device_values:
                value = ort.OrtValue.ortvalue_from_numpy(array, self.device)
                self._device_values[layout] = value
            on_device[name] = self._device_values[layout]
            binding.bind_ortvalue_input(name, on_device[name])
        places = [tensor_place(place) for place in self.session.get_outputs()]
        batch = len(next(iter(inputs.values())))
        # A state that the model returns has a fixed first size of its own.
        shapes = [
            (batch if place.shape[:1] in ((), (-1,), (1,)) else place.shape[0], *place.shape[1:])
            for place in places
        ]
        outputs: dict[str, npt.NDArray[Any]] | None = None
        if any(-1 in shape or not place.shape for place, shape in zip(places, shapes, strict=True)):
            for place in places:
                binding.bind_output(place.name, "cpu")
        else:
            outputs = {}
            for place, shape in zip(places, shapes, strict=True):
                array = outputs[place.name] = page_aligned(shape, place.element_type)
                address = array.__array_interface__["data"][0]
                binding.bind_output(place.name, "cpu", 0, array.dtype, shape, address)
        self.keeps_outputs = outputs is not None
        # A binding has only the addresses of arrays, so they must be stored with it.
        if self.locks is not None:
            for array in (*inputs.values(), *(outputs or {}).values()):
                self.locks.lock(array)
        bound = Binding(inputs, binding, outputs, on_device)
        self._bindings[id(inputs)] = bound
        return bound


class LayerTwin:
    """A second, profiled session for one block of predict calls."""

    def __init__(
        self,
        request: OpenRequest,
        options: Options,
        names: LayerNames,
        warmed_with: Sequence[Tensors],
    ) -> None:
        """Open a profiled session and predict each batch of `warmed_with` once, uncounted.

        `request` and `options` are those of the measured session; `names` describes its nodes.
        Raises OpenFailed, PredictFailed.
        """
        self._request = request
        self._options = options
        self._names = names
        self._warmed_with = warmed_with
        self._cores = usable_core_numbers()
        self._folder = tempfile.TemporaryDirectory(dir=request.scratch, prefix="layers-")
        #: finished profiles: the file, and when it began (CLOCK_MONOTONIC ns)
        self._profiles: list[tuple[Path, int]] = []
        self.notes: list[str] = [_ROUNDED_NOTE]
        if names.repeating:
            self.notes.append(bodies_note(names.repeating))
        self._remaining_runs = 0
        self._open()
        if not names.is_counted:
            self._end_profile()
            with self._profiles.pop()[0].open() as lines:
                names.count(lines, len(warmed_with))
            self._open()

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        if self._remaining_runs == 0:
            self._end_profile()
            # The caller may be kept on one core, which the new session's threads must not inherit.
            with kept_on(self._cores):
                self._open()
            if _FULL_NOTE not in self.notes:
                self.notes.append(_FULL_NOTE)
        self._remaining_runs -= 1
        return self._bound.predict(inputs)

    def close(self) -> list[list[Layer]]:
        """End profiling and return the layers of each call; no file is left behind."""
        self._end_profile()
        calls = []
        for path, began_ns in self._profiles:
            with path.open() as lines:
                runs = list(runs_of(lines))
            # A node that runs at the same time as others is charged for their memory too.
            if runs and self._options.mode != "parallel":
                self._names.measure(runs[0])
            calls += [
                [self._names.layer(event, began_ns) for event in events]
                for events in runs[len(self._warmed_with) :]
            ]
        self._folder.cleanup()
        return calls

    def _open(self) -> None:
        settings = _session_options(self._options)
        settings.enable_profiling = True
        settings.profile_file_prefix = str(Path(self._folder.name) / "profile")
        self._bound = _bound(_session(self._request, self._options, settings))
        for inputs in self._warmed_with:
            self._bound.predict(inputs)
        self._remaining_runs = max(1, _MAX_EVENTS // self._names.events)

    def _end_profile(self) -> None:
        session = self._bound.session
        began_ns = session.get_profiling_start_time_ns() - epoch_offset_ns()
        self._profiles.append((Path(session.end_profiling()), began_ns))
        self._bound.drop()


def tensor_place(place: Any) -> TensorPlace:
    """Describe one of ORT's NodeArgs; free dimensions are -1."""
    shape = tuple(size if isinstance(size, int) and size >= 0 else -1 for size in place.shape)
    return TensorPlace(place.name, shape, _ELEMENT_TYPES.get(place.type, "float32"))


def _bound(session: ort.InferenceSession) -> BoundSession:
    """Return a session to bind arrays to, in the memory of its first provider."""
    device = _DEVICES.get(session.get_providers()[0], "")
    return BoundSession(session, device, cuda_page_locks() if device == "cuda" else None)


def _session_options(options: Options) -> ort.SessionOptions:
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = options.inter_threads
    settings.graph_optimization_level = _OPTIMIZATIONS[options.graph_optimization]
    settings.execution_mode = (
        ort.ExecutionMode.ORT_PARALLEL
        if options.mode == "parallel"
        else ort.ExecutionMode.ORT_SEQUENTIAL
    )
    settings.add_session_config_entry("session.intra_op.allow_spinning", str(int(options.spinning)))
    settings.log_severity_level = 3
    return settings


def _session(
    request: OpenRequest, options: Options, settings: ort.SessionOptions
) -> ort.InferenceSession:
    """Open the checked bytes; by path only where the weights are in another file beside it.

    Raises OpenFailed.
    """
    source = str(request.graph_path) if request.weights_path else request.graph
    with opening_model(request.model.name):
        return ort.InferenceSession(source, settings, providers=[options.provider])
