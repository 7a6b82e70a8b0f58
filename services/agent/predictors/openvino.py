"""OpenVINO: ONNX, OpenVINO IR, TensorFlow and TFLite graphs on Intel's and other CPUs.

Inputs share the caller's memory: an infer request is kept for each set of arrays. Unless asked
otherwise the precision is float32: OpenVINO's own default is bfloat16 where a CPU has AMX.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import openvino as ov

from schemas.level import Level
from services.agent.errors import BadOption, BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.predictors import LayerCapture, Opened, OpenRequest, TensorPlace, Tensors
from services.agent.predictors.opening import Opening
from services.agent.predictors.openvino_layers import (
    CountedCapture,
    NodeNames,
    nodes_of,
    windows_of,
)
from services.agent.predictors.options import check_known, choice, count, usable_cores
from services.agent.predictors.shapes import first_line, is_batched

_MOST_BOUND = 16
_KNOWN = ("threads", "streams", "precision", "performance_hint")
_PRECISIONS = ("float32", "bfloat16", "float16")
_HINTS = ("latency", "throughput")
_OV_PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}

Compiled = tuple[Any, Mapping[str, int]]
"""A compiled model, and the windows of its pools, see `windows_of`."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a model is compiled with."""

    threads: int
    #: requests a device works on side by side
    streams: int
    precision: str
    performance_hint: str
    device: str


def options_of(given: Mapping[str, Any], device: str, devices: list[str]) -> Options:
    """Return the options of a request; `devices` are OpenVINO's names here. Raises BadOption."""
    check_known(given, _KNOWN)
    place = (device or "cpu").upper()
    if not any(each == place or each.startswith(f"{place}.") for each in devices):
        raise BadOption("device", device, f"one of {', '.join(devices).lower()}")
    return Options(
        threads=count(given, "threads", usable_cores()),
        streams=count(given, "streams", 1),
        precision=choice(given, "precision", _PRECISIONS, "float32"),
        performance_hint=choice(given, "performance_hint", _HINTS, "latency"),
        device=place,
    )


def open_model(request: OpenRequest) -> "OpenVinoPredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    core = ov.Core()
    options = options_of(request.options, request.device, core.available_devices)
    opening = Opening(request)

    def compiled(**more: Any) -> Compiled:
        try:
            model = _read(core, request)
            _check_batch(model, request)
            made = core.compile_model(model, options.device, {**_settings(options), **more})
            return made, windows_of(model)
        except RuntimeError as error:  # the only kind OpenVINO raises
            raise OpenFailed(request.model.name, first_line(error)) from error

    predictor = OpenVinoPredictor(compiled()[0], options, lambda: compiled(**_counted(options)))
    opening.loaded()
    opening.run_first(predictor)
    predictor.forget_arrays()
    return predictor


class OpenVinoPredictor:
    """An opened OpenVINO model."""

    def __init__(self, compiled: Any, options: Options, twin: Callable[[], Compiled]) -> None:
        self._compiled = compiled
        self._options = options
        self._twin = twin
        #: its nodes by the batch size that they are told for
        self._names: dict[int, NodeNames] = {}
        self._outputs = {_name(port): port for port in compiled.outputs}
        self._bound: dict[int, tuple[Tensors, Any]] = {}
        self.opened = self._opened()

    def forget_arrays(self) -> None:
        """Let go the arrays that were predicted so far."""
        self._bound.clear()

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        try:
            known = self._bound.get(id(inputs)) or self._bind(inputs)
            infer = known[1]
            infer.infer()
            return {name: infer.get_tensor(port).data for name, port in self._outputs.items()}
        except (RuntimeError, ValueError) as error:
            raise PredictFailed(first_line(error)) from error

    def layers(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin a capture on a twin of its own that counts. Raises OpenFailed, PredictFailed."""
        compiled, windows = self._twin()
        batch_size = len(next(iter(warmed_with[0].values()))) if warmed_with else -1
        if batch_size not in self._names:
            self._names[batch_size] = nodes_of(compiled, batch_size, windows)
        twin = OpenVinoPredictor(compiled, self._options, self._twin)
        return CountedCapture(twin.predict_told, self._names[batch_size], warmed_with)

    def predict_told(self, inputs: Tensors) -> tuple[Tensors, Any]:
        """Return the outputs and the request that made them. Raises PredictFailed."""
        outputs = self.predict(inputs)
        return outputs, self._bound[id(inputs)][1]

    def close(self) -> None:
        """Let the compiled model go."""
        self._bound.clear()
        self._outputs.clear()
        del self._compiled, self._twin

    def _bind(self, inputs: Tensors) -> tuple[Tensors, Any]:
        if len(self._bound) >= _MOST_BOUND:
            self._bound.pop(next(iter(self._bound)))
        infer = self._compiled.create_infer_request()
        for name, array in inputs.items():
            infer.set_tensor(name, ov.Tensor(array, shared_memory=True))
        known = self._bound[id(inputs)] = (inputs, infer)
        return known

    def _opened(self) -> Opened:
        hint = self._compiled.get_property("INFERENCE_PRECISION_HINT")
        is_cpu = self._options.device == "CPU"
        return Opened(
            framework="openvino",
            framework_version=ov.__version__,
            inputs=tuple(_place(port) for port in self._compiled.inputs),
            outputs=tuple(_place(port) for port in self._compiled.outputs),
            device="cpu" if is_cpu else self._options.device.lower(),
            provider=", ".join(self._compiled.get_property("EXECUTION_DEVICES")),
            precision=hint.to_dtype().name if hasattr(hint, "to_dtype") else str(hint),
            threads=int(self._compiled.get_property("INFERENCE_NUM_THREADS")),
            options=asdict(self._options),
            deepest_level=Level.FRAMEWORK if is_cpu else Level.MODEL,
            level_reason="" if is_cpu else "what OpenVINO counts was looked into on CPUs only",
        )


def _read(core: Any, request: OpenRequest) -> Any:
    """Read the checked bytes; by path where the format is a folder or has weights beside it."""
    suffix = request.graph_path.suffix.lower()
    if suffix == ".onnx" and request.weights_path is None:
        return core.read_model(request.graph, b"")
    if suffix == ".xml" and request.weights_path is not None:
        return core.read_model(str(request.graph_path), str(request.weights_path))
    return core.read_model(str(request.graph_path))


def _settings(options: Options) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "PERFORMANCE_HINT": options.performance_hint.upper(),
        "INFERENCE_PRECISION_HINT": _OV_PRECISIONS[options.precision],
    }
    if options.device == "CPU":
        settings |= {"INFERENCE_NUM_THREADS": options.threads, "NUM_STREAMS": options.streams}
    return settings


def _counted(options: Options) -> dict[str, Any]:
    """Return what a twin is compiled with: streams count apart, so it has one of as many threads.

    A request of its model goes to any stream, and tells that one's counts.
    """
    alone = max(1, options.threads // options.streams)
    return {"PERF_COUNT": True, "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": alone}


def _check_batch(model: Any, request: OpenRequest) -> None:
    batch_size = request.batch_size
    for place in (_place(port) for port in model.inputs):
        fits = not place.shape or place.shape[0] in (-1, batch_size)
        if not fits and is_batched(place.name, request.model.inputs):
            raise BatchSizeUnsupported(batch_size, place.name, list(place.shape))


def _place(port: Any) -> TensorPlace:
    shape = tuple(size.get_length() if size.is_static else -1 for size in port.get_partial_shape())
    return TensorPlace(_name(port), shape, port.get_element_type().to_dtype().name)


def _name(port: Any) -> str:
    """Return the name a port is known by: the graph's own, before OpenVINO's `:0`."""
    names = sorted(port.get_names(), key=len)
    return names[0] if names else str(port.get_node().get_friendly_name())
