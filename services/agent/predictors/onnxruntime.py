"""ONNX Runtime: any provider it has, inputs and outputs bound once, layers from a profiled twin.

The session that is measured is never profiled: profiling costs some 6 us a node. A capture of
layers opens a twin session with ORT's profiler on, for one block, and reads the profile after it.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from mlscope.tracing.clock import epoch_offset_ns
from schemas.level import Level
from services.agent.errors import BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.predictors import (
    Layer,
    LayerCapture,
    Opened,
    OpenRequest,
    TensorPlace,
    Tensors,
)
from services.agent.predictors.onnx_graph import graph_of
from services.agent.predictors.onnxruntime_layers import LayerNames, bodies_note, runs_of
from services.agent.predictors.onnxruntime_options import Options, options_of
from services.agent.predictors.opening import Opening
from services.agent.predictors.shapes import first_line, is_batched

_CUT = "layer times are whole microseconds, cut: their sums are a little low"
_FULL = "a profile was full: queries that waited for the next one were slow, their layers were not"
_MOST_BOUND = 16
_MOST_EVENTS = 500_000
"""Events of one profile; ORT stops recording at 1,000,000, and they wait in memory."""

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
_QUANTIZED = (b"QLinearConv", b"QLinearMatMul", b"DequantizeLinear", b"MatMulInteger")


def open_model(request: OpenRequest) -> "OnnxRuntimePredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    options = options_of(request.options, request.device, ort.get_available_providers())
    opening = Opening(request)
    session = _session(request, options, _session_options(options))
    opening.loaded()
    for place in session.get_inputs():
        if is_batched(place.name, request.model.inputs):
            _check_batch(request.batch_size, place.name, place.shape)
    predictor = OnnxRuntimePredictor(request, options, BoundSession(session))
    opening.run_first(predictor)
    predictor.forget_arrays()
    return predictor


class OnnxRuntimePredictor:
    """An opened ONNX model."""

    def __init__(self, request: OpenRequest, options: Options, bound: "BoundSession") -> None:
        self._request = request
        self._options = options
        self._bound = bound
        self._names: LayerNames | None = None
        self.opened = _opened(request, options, bound.session)
        #: outputs for one batch; see `Predictor.predict`
        self.predict = bound.predict

    def forget_arrays(self) -> None:
        """Let go the arrays that were predicted so far."""
        self._bound.forget()

    def layers(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin a capture on a twin session. Raises OpenFailed, PredictFailed."""
        if self._names is None:
            self._names = _layer_names(self._request, self._options)
        return LayerTwin(self._request, self._options, self._names, warmed_with)

    def close(self) -> None:
        """Let the session go."""
        self._bound.drop()
        del self._bound, self.predict


class BoundSession:
    """A session whose input arrays are bound the first time they are seen.

    Outputs of known shape are bound to arrays of their own; they are overwritten by the next
    call with the same inputs.
    """

    def __init__(self, session: ort.InferenceSession) -> None:
        self.session = session
        self._run = session.run_with_iobinding
        self._bindings: dict[int, tuple[Tensors, Any, dict[str, npt.NDArray[Any]] | None]] = {}

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        known = self._bindings.get(id(inputs))
        if known is None:
            known = self._bind(inputs)
        try:
            self._run(known[1])
        except Exception as error:  # ORT's errors share no root
            raise PredictFailed(first_line(error)) from error
        if known[2] is not None:
            return known[2]
        names = [place.name for place in self.session.get_outputs()]
        return dict(zip(names, known[1].copy_outputs_to_cpu(), strict=True))

    def forget(self) -> None:
        """Forget every binding."""
        self._bindings.clear()

    def drop(self) -> None:
        """Forget every binding and the session."""
        self.forget()
        del self._run, self.session

    def _bind(self, inputs: Tensors) -> tuple[Tensors, Any, dict[str, npt.NDArray[Any]] | None]:
        if len(self._bindings) >= _MOST_BOUND:
            self._bindings.pop(next(iter(self._bindings)))
        binding = self.session.io_binding()
        for name, array in inputs.items():
            binding.bind_cpu_input(name, array)
        outputs = self._bind_outputs(binding, len(next(iter(inputs.values()))))
        # The arrays are kept beside the binding: it holds their addresses only.
        known = (inputs, binding, outputs)
        self._bindings[id(inputs)] = known
        return known

    def _bind_outputs(self, binding: Any, batch: int) -> dict[str, npt.NDArray[Any]] | None:
        places = [tensor_place(place) for place in self.session.get_outputs()]
        shapes = [_batched(place.shape, batch) for place in places]
        if any(-1 in shape or not place.shape for place, shape in zip(places, shapes, strict=True)):
            for place in places:
                binding.bind_output(place.name, "cpu")
            return None
        arrays = {}
        for place, shape in zip(places, shapes, strict=True):
            array = np.zeros(shape, place.element_type)
            binding.bind_output(
                place.name, "cpu", 0, array.dtype, shape, array.__array_interface__["data"][0]
            )
            arrays[place.name] = array
        return arrays


class LayerTwin:
    """A profiled session beside the measured one, for one block of predict calls."""

    def __init__(
        self,
        request: OpenRequest,
        options: Options,
        names: LayerNames,
        warmed_with: Sequence[Tensors],
    ) -> None:
        self._request = request
        self._options = options
        self._names = names
        self._warmed_with = warmed_with
        self._folder = tempfile.TemporaryDirectory(dir=request.scratch, prefix="layers-")
        #: finished profiles: file and when it began (monotonic ns)
        self._profiles: list[tuple[Path, int]] = []
        self.notes: list[str] = [_CUT]
        if names.holders:
            self.notes.append(bodies_note(names.holders))
        self._runs_left = 0
        self._open()
        if not names.is_counted:
            self._end()
            with self._profiles.pop()[0].open() as lines:
                names.count(lines, len(warmed_with))
            self._open()

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        if self._runs_left == 0:
            self._end()
            self._open()
            if _FULL not in self.notes:
                self.notes.append(_FULL)
        self._runs_left -= 1
        return self._bound.predict(inputs)

    def close(self) -> list[list[Layer]]:
        """End profiling; return the layers of each call, and leave no file."""
        self._end()
        calls = [call for profile in self._profiles for call in self._calls_in(*profile)]
        self._folder.cleanup()
        return calls

    def _calls_in(self, path: Path, began_ns: int) -> Iterator[list[Layer]]:
        """Yield the layers of each call of a session's profile."""
        runs = _runs_in(path)
        # Of nodes side by side, each would have what the others allocate.
        if runs and self._options.mode != "parallel":
            self._names.measure(runs[0])
        for events in runs[len(self._warmed_with) :]:
            yield [self._names.layer(event, began_ns) for event in events]

    def _open(self) -> None:
        settings = _session_options(self._options)
        settings.enable_profiling = True
        settings.profile_file_prefix = str(Path(self._folder.name) / "profile")
        self._bound = BoundSession(_session(self._request, self._options, settings))
        for inputs in self._warmed_with:
            self._bound.predict(inputs)
        self._runs_left = max(1, _MOST_EVENTS // self._names.events)

    def _end(self) -> None:
        session = self._bound.session
        began_ns = session.get_profiling_start_time_ns() - epoch_offset_ns()
        self._profiles.append((Path(session.end_profiling()), began_ns))
        self._bound.drop()


def _runs_in(path: Path) -> list[list[dict[str, Any]]]:
    """Return the node events of each of a profile's runs."""
    with path.open() as lines:
        return list(runs_of(lines))


def tensor_place(place: Any) -> TensorPlace:
    """Return one of ORT's NodeArgs as a place; free dimensions are -1."""
    shape = tuple(size if isinstance(size, int) and size >= 0 else -1 for size in place.shape)
    return TensorPlace(place.name, shape, _ELEMENT_TYPES.get(place.type, "float32"))


def _batched(shape: tuple[int, ...], batch: int) -> tuple[int, ...]:
    """Return an output's shape at a batch size; a state that goes out again has its own."""
    return (batch if shape[:1] in ((), (-1,), (1,)) else shape[0], *shape[1:])


def _check_batch(batch_size: int, name: str, shape: list[Any]) -> None:
    if shape and isinstance(shape[0], int) and shape[0] not in (-1, batch_size):
        raise BatchSizeUnsupported(batch_size, name, shape)


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
    """Open the checked bytes; by path only where weights lie beside it. Raises OpenFailed."""
    source = str(request.graph_path) if request.weights_path else request.graph
    try:
        return ort.InferenceSession(source, settings, providers=[options.provider])
    except Exception as error:  # ORT's errors share no root
        raise OpenFailed(request.model.name, first_line(error)) from error


def _layer_names(request: OpenRequest, options: Options) -> LayerNames:
    """Return names by the original graph and the one ORT makes of it (saved once, read back)."""
    originals = graph_of(request.graph)
    with tempfile.TemporaryDirectory(dir=request.scratch) as folder:
        path = Path(folder) / "executed.onnx"
        settings = _session_options(options)
        settings.optimized_model_filepath = str(path)
        _session(request, options, settings)
        executed = graph_of(path.read_bytes())
    return LayerNames(originals, executed)


def _opened(
    request: OpenRequest,
    options: Options,
    session: ort.InferenceSession,
) -> Opened:
    inputs = tuple(tensor_place(place) for place in session.get_inputs())
    provider = session.get_providers()[0]
    return Opened(
        framework="onnxruntime",
        framework_version=ort.__version__,
        inputs=inputs,
        outputs=tuple(tensor_place(place) for place in session.get_outputs()),
        device="gpu" if provider == "CUDAExecutionProvider" else "cpu",
        provider=provider,
        precision=_precision(request.graph, inputs, provider),
        threads=options.threads,
        options=options.as_given(),
        deepest_level=Level.FRAMEWORK,
    )


def _precision(graph: bytes, inputs: tuple[TensorPlace, ...], provider: str) -> str:
    """Return what the model is computed in: its inputs' type, and what that hides."""
    floats = [place.element_type for place in inputs if place.element_type.startswith("float")]
    stored = floats[0] if floats else "float32"
    if any(name in graph for name in _QUANTIZED):
        return f"int8 (quantized {stored})"
    if provider == "CUDAExecutionProvider" and stored == "float32":
        return "float32 (tf32 allowed)"
    return stored
