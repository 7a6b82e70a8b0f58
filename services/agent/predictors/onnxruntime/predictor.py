"""ONNX Runtime: any of its providers, with inputs and outputs bound once (`binding`).

The measured session is never profiled, as profiling costs about 6 us a node. A capture of layers
opens a twin session with ORT's profiler on, for one block, and reads the profile afterwards.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnxruntime as ort

from mlscope.importing.onnxruntime.events import bodies_note
from mlscope.tracing.clock import epoch_offset_ns
from schemas.level import Level
from services.agent.errors import BatchSizeUnsupported, OpenFailed
from services.agent.machine.cores import kept_on
from services.agent.machine.noise import usable_core_numbers
from services.agent.predictors import (
    LAUNCH_NOTE,
    CallPart,
    Layer,
    LayerCapture,
    Opened,
    OpenRequest,
    Tensors,
)
from services.agent.predictors.boundary import opening_model
from services.agent.predictors.cuda_runtime import NO_LOCKS, cuda_copy_out, cuda_page_locks
from services.agent.predictors.onnxruntime.binding import BoundSession, Device, tensor_place
from services.agent.predictors.onnxruntime.graph import graph_of
from services.agent.predictors.onnxruntime.layers import LayerNames, fallback_note, runs_of
from services.agent.predictors.onnxruntime.libraries import load_libraries, needs_libraries
from services.agent.predictors.onnxruntime.options import Options, options_of
from services.agent.predictors.opening import Opening
from services.agent.predictors.page_locking import PAGEABLE
from services.agent.predictors.shapes import is_batched

_ROUNDED_NOTE = "layer times are rounded down to whole microseconds, so their sums are slightly low"
_FULL_NOTE = "the profile was full: starting the next one delayed one query, but not its layers"
_MAX_EVENTS = 500_000
"""Events of one profile: they are held in memory, and ORT stops recording at 1,000,000."""
_OPTIMIZATIONS: Mapping[str, Any] = {
    "disable": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
_ON_CUDA = frozenset({"CUDAExecutionProvider", "TensorrtExecutionProvider"})
"""The providers that compute in a GPU's memory."""
_QUANTIZED = (b"QLinearConv", b"QLinearMatMul", b"DequantizeLinear", b"MatMulInteger")


def open_model(request: OpenRequest) -> "OnnxRuntimePredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    # ORT may name the provider only once its libraries are loaded.
    if needs_libraries(request.options, request.device):
        load_libraries()
    options = options_of(request.options, request.device, ort.get_available_providers())
    opening = Opening(request)
    session = _session(request, options, _session_options(options))
    opening.mark_loaded()
    for place in session.get_inputs():
        size = place.shape[0] if place.shape else None
        is_fixed = isinstance(size, int) and size not in (-1, request.batch_size)
        if is_fixed and is_batched(place.name, request.model.inputs):
            raise BatchSizeUnsupported(request.batch_size, place.name, place.shape)
    bound = _bound(session)
    kind = OnnxRuntimePredictor if bound.device is None else GpuPredictor
    predictor = kind(request, options, bound)
    opening.run_first(predictor)
    predictor.forget_arrays()
    return predictor


class OnnxRuntimePredictor:
    """An opened ONNX model."""

    def __init__(self, request: OpenRequest, options: Options, bound: BoundSession) -> None:
        """Take the `bound` session that was opened for a `request` with these `options`."""
        self._request = request
        self._options = options
        self._bound = bound
        self._names: LayerNames | None = None
        session = bound.session
        inputs = tuple(tensor_place(place) for place in session.get_inputs())
        provider = session.get_providers()[0]
        is_on_gpu = bound.device is not None
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
        self.predict = bound.predict

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


class GpuPredictor(OnnxRuntimePredictor):
    """An opened ONNX model on a GPU."""

    def __init__(self, request: OpenRequest, options: Options, bound: BoundSession) -> None:
        """Take the `bound` session that was opened for a `request` with these `options`."""
        super().__init__(request, options, bound)
        self.predict = self._predict_on_device

    def predict_parts(self, inputs: Tensors) -> tuple[Tensors, Sequence[CallPart]]:
        """Return the outputs for one batch, and when the call's parts ran. Raises PredictFailed."""
        return self._bound.predict_parts(inputs)

    def _predict_on_device(self, inputs: Tensors) -> Tensors:
        """Predict, and note the kinds of the host's memory once they are known."""
        outputs = self._bound.predict(inputs)
        if not self.opened.host_memory:
            device = self._bound.device
            locks = device.locks if device is not None else None
            memory, reason = (
                (PAGEABLE, NO_LOCKS) if locks is None else (locks.host_memory, locks.refusal)
            )
            self.opened = replace(
                self.opened,
                host_memory=memory,
                # Outputs of free shapes and a type that NumPy lacks return into new arrays.
                output_memory=memory if self._bound.keeps_outputs else PAGEABLE,
                memory_reason=reason,
            )
        return outputs


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
        if self._bound.device is not None:
            self.notes.append(LAUNCH_NOTE)
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
            note = fallback_note(runs[0], self._options.provider) if runs else ""
            if note and note not in self.notes:
                self.notes.append(note)
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


def _bound(session: ort.InferenceSession) -> BoundSession:
    """Return a session to bind arrays to, in the memory of its first provider."""
    if session.get_providers()[0] not in _ON_CUDA:
        return BoundSession(session)
    return BoundSession(session, Device("cuda", cuda_page_locks(), cuda_copy_out()))


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
        session = ort.InferenceSession(source, settings, providers=[options.provider])
    if options.provider not in session.get_providers():
        # ORT would compute on the CPU instead, and say so on the error output alone.
        reason = load_libraries() or "its libraries are missing, or of another version"
        raise OpenFailed(request.model.name, f"{options.provider} cannot be used: {reason}")
    return session
