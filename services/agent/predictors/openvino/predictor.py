"""OpenVINO: ONNX, OpenVINO IR, TensorFlow and TFLite graphs on Intel's and other CPUs.

Inputs share the caller's memory: there is an infer request for each set of arrays. The default
precision is float32; OpenVINO's own default is bfloat16 where a CPU has AMX.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import openvino as ov

from schemas.level import Level
from services.agent.errors import BadOption, BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.predictors import (
    MAX_BOUND,
    LayerCapture,
    Opened,
    OpenRequest,
    TensorPlace,
    Tensors,
)
from services.agent.predictors.opening import Opening
from services.agent.predictors.openvino.layers import (
    CountedCapture,
    ExecutedNodes,
    nodes_of,
    windows_of,
)
from services.agent.predictors.options import check_known, choice, count, usable_cores
from services.agent.predictors.shapes import first_line, is_batched

_PRECISIONS = ("float32", "bfloat16", "float16")
_HINTS = ("latency", "throughput")
_OV_PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}

Compiled = tuple[Any, Mapping[str, int]]
"""A compiled model, and the windows of its pools (see `windows_of`)."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a model is compiled with."""

    threads: int
    #: requests that a device works on at the same time
    streams: int
    precision: str
    performance_hint: str
    device: str

    @property
    def settings(self) -> dict[str, Any]:
        """OpenVINO's own settings, by name."""
        settings: dict[str, Any] = {
            "PERFORMANCE_HINT": self.performance_hint.upper(),
            "INFERENCE_PRECISION_HINT": _OV_PRECISIONS[self.precision],
        }
        if self.device == "CPU":
            settings |= {"INFERENCE_NUM_THREADS": self.threads, "NUM_STREAMS": self.streams}
        return settings

    @property
    def counting_settings(self) -> dict[str, Any]:
        """The further settings of a twin with counters: one stream, with the threads of one.

        Each stream counts for itself, and a request reports the counts of the stream that ran it.
        """
        stream_threads = max(1, self.threads // self.streams)
        return {"PERF_COUNT": True, "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": stream_threads}


def options_of(requested: Mapping[str, Any], device: str, devices: list[str]) -> Options:
    """Return the checked options; `requested` has those of a request by name.

    `device` is a name such as cpu; `devices`: OpenVINO's names of those it sees here. Raises
    BadOption.
    """
    check_known(requested, "openvino")
    place = (device or "cpu").upper()
    if not any(name == place or name.startswith(f"{place}.") for name in devices):
        raise BadOption("device", device, f"one of {', '.join(devices).lower()}")
    return Options(
        threads=count(requested, "threads", usable_cores()),
        streams=count(requested, "streams", 1),
        precision=choice(requested, "precision", _PRECISIONS, "float32"),
        performance_hint=choice(requested, "performance_hint", _HINTS, "latency"),
        device=place,
    )


def open_model(request: OpenRequest) -> "OpenVinoPredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    core = ov.Core()
    options = options_of(request.options, request.device, core.available_devices)
    opening = Opening(request)

    def compile_model(**extra_settings: Any) -> Compiled:
        settings = {**options.settings, **extra_settings}
        try:
            model = read_model(core, request)
            return core.compile_model(model, options.device, settings), windows_of(model)
        except RuntimeError as error:  # the only kind OpenVINO raises
            raise OpenFailed(request.model.name, first_line(error)) from error

    predictor = OpenVinoPredictor(
        compile_model()[0], options, lambda: compile_model(**options.counting_settings)
    )
    opening.mark_loaded()
    opening.run_first(predictor)
    predictor.forget_arrays()
    return predictor


def read_model(core: Any, request: OpenRequest) -> Any:
    """Return a request's model, not compiled. Raises BatchSizeUnsupported, RuntimeError.

    It is read from the checked bytes; by path for a folder, or where the weights are in another
    file.
    """
    match request.graph_path.suffix.lower(), request.weights_path:
        case ".onnx", None:
            model = core.read_model(request.graph, b"")
        case ".xml", Path() as weights_path:
            model = core.read_model(str(request.graph_path), str(weights_path))
        case _:
            model = core.read_model(str(request.graph_path))
    for place in map(_place, model.inputs):
        fits = not place.shape or place.shape[0] in (-1, request.batch_size)
        if not fits and is_batched(place.name, request.model.inputs):
            raise BatchSizeUnsupported(request.batch_size, place.name, list(place.shape))
    return model


class OpenVinoPredictor:
    """An opened OpenVINO model."""

    def __init__(self, compiled: Any, options: Options, twin: Callable[[], Compiled]) -> None:
        """Take a model `compiled` with these `options`; `twin` compiles it with counters."""
        self._compiled = compiled
        self._options = options
        self._twin = twin
        #: its nodes, by the batch size in their shapes
        self._executed_nodes: dict[int, ExecutedNodes] = {}
        self._outputs = {_name(port): port for port in compiled.outputs}
        self._requests: dict[int, tuple[Tensors, Any]] = {}
        hint = compiled.get_property("INFERENCE_PRECISION_HINT")
        is_cpu = options.device == "CPU"
        self.opened = Opened(
            framework="openvino",
            framework_version=ov.__version__,
            inputs=tuple(_place(port) for port in compiled.inputs),
            outputs=tuple(_place(port) for port in compiled.outputs),
            device="cpu" if is_cpu else options.device.lower(),
            provider=", ".join(compiled.get_property("EXECUTION_DEVICES")),
            precision=hint.to_dtype().name if hasattr(hint, "to_dtype") else str(hint),
            threads=int(compiled.get_property("INFERENCE_NUM_THREADS")),
            options=asdict(options),
            deepest_level=Level.FRAMEWORK if is_cpu else Level.MODEL,
            level_reason="" if is_cpu else "OpenVINO's layer times were verified on CPUs only",
        )

    def forget_arrays(self) -> None:
        """Release the arrays of earlier predict calls."""
        self._requests.clear()

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        return self.predict_with_request(inputs)[0]

    def predict_with_request(self, inputs: Tensors) -> tuple[Tensors, Any]:
        """Return the outputs and the infer request that made them. Raises PredictFailed."""
        try:
            bound = self._requests.get(id(inputs))
            if bound is None:
                if len(self._requests) >= MAX_BOUND:
                    self._requests.pop(next(iter(self._requests)))
                infer = self._compiled.create_infer_request()
                for name, array in inputs.items():
                    infer.set_tensor(name, ov.Tensor(array, shared_memory=True))
                bound = self._requests[id(inputs)] = (inputs, infer)
            _, infer = bound
            infer.infer()
            outputs = {name: infer.get_tensor(port).data for name, port in self._outputs.items()}
        except (RuntimeError, ValueError) as error:
            raise PredictFailed(first_line(error)) from error
        return outputs, infer

    def layers(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin a capture on a twin with counters. Raises OpenFailed, PredictFailed."""
        compiled, windows = self._twin()
        batch_size = len(next(iter(warmed_with[0].values()))) if warmed_with else -1
        if batch_size not in self._executed_nodes:
            self._executed_nodes[batch_size] = nodes_of(compiled, batch_size, windows)
        twin = OpenVinoPredictor(compiled, self._options, self._twin)
        return CountedCapture(
            twin.predict_with_request, self._executed_nodes[batch_size], warmed_with
        )

    def close(self) -> None:
        """Free the compiled model."""
        self._requests.clear()
        self._outputs.clear()
        del self._compiled, self._twin


def _place(port: Any) -> TensorPlace:
    shape = tuple(size.get_length() if size.is_static else -1 for size in port.get_partial_shape())
    return TensorPlace(_name(port), shape, port.get_element_type().to_dtype().name)


def _name(port: Any) -> str:
    """Return a port's name: the graph's own, without the `:0` that OpenVINO adds."""
    names = sorted(port.get_names(), key=len)
    return names[0] if names else str(port.get_node().get_friendly_name())
