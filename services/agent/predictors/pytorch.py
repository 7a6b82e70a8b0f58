"""PyTorch: models from a builder, TorchScript or an exported program; eager or compiled.

No pickle that could run code is loaded: weights are safetensors, or a state dict read with
`weights_only`; exported programs are checked first; TorchScript's pickles are read by its own
reader, which knows no Python.
On a GPU the clock of a predict call stops when its outputs are in the host's memory.
"""

import gc
import inspect
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from schemas.level import Level
from schemas.manifest import Port
from services.agent.errors import OpenFailed, PredictFailed
from services.agent.predictors import LayerCapture, Opened, OpenRequest, TensorPlace, Tensors
from services.agent.predictors.building import build
from services.agent.predictors.opening import Opening
from services.agent.predictors.pytorch_archive import load_exported
from services.agent.predictors.pytorch_capturing import Calls, Capturing
from services.agent.predictors.pytorch_events import MODEL_CALL
from services.agent.predictors.pytorch_feed import DTYPES, Feed
from services.agent.predictors.pytorch_options import Options, options_of
from services.agent.predictors.pytorch_outputs import array_of, leaves_of, name_of_one
from services.agent.predictors.pytorch_weights import WeightWatch
from services.agent.predictors.shapes import first_line

_MOST_BOUND = 16
_FORMATS = {
    ".pt2": "exported",
    ".ts": "torchscript",
    ".pt": "torchscript",
    ".pth": "torchscript",
}


def open_model(request: OpenRequest) -> "PyTorchPredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    options = options_of(request.options, request.device, has_gpu=torch.cuda.is_available())
    _set_up(options)
    opening, watch = Opening(request), WeightWatch(is_on=request.traces_first)
    try:
        module = _placed(_loaded(request, watch), options, watch)
    except OpenFailed:
        raise
    except Exception as error:  # builders and loaders raise what they like
        raise OpenFailed(request.model.name, first_line(error)) from error
    predictor = PyTorchPredictor(request, options, module)
    opening.loaded(watch.moves)
    if all(port.shape for port in request.model.inputs):
        predictor.settle(opening.run_first(predictor))
    else:
        opening.ran(predictor)
    return predictor


class PyTorchPredictor:
    """An opened PyTorch model."""

    def __init__(self, request: OpenRequest, options: Options, module: Any) -> None:
        self._request = request
        self._options = options
        self.module = module
        self._device = torch.device(options.device)
        self._names = [port.layer_name for port in request.model.outputs]
        self._name_of_one = name_of_one(self._names)
        self._call = _caller(module, request.model.inputs, options)
        self._feeds: dict[int, Feed] = {}
        self._graph: _CapturedGraph | None = None
        self._capturing: Capturing | None = None
        self.opened = self._opened()

    def settle(self, outputs: Tensors) -> None:
        """Note what its outputs are like, and capture its graph where that was asked for."""
        places = tuple(
            TensorPlace(name, (-1, *array.shape[1:]), str(array.dtype))
            for name, array in outputs.items()
        )
        if self._options.graphs:
            (feed,) = self._feeds.values()
            self._graph = _CapturedGraph(self._call, feed.moved())
        self._feeds.clear()
        held = torch.cuda.memory_reserved(self._device) if self._device.type == "cuda" else 0
        self.opened = replace(self.opened, outputs=places, device_memory_bytes=held)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        return self._predicted(inputs, self._graph)

    def predict_directly(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch, replaying no captured graph. Raises PredictFailed."""
        return self._predicted(inputs, None)

    def predict_marked(self, inputs: Tensors) -> Tensors:
        """Predict directly, the model's own call in a region of the profiler's.

        Raises PredictFailed.
        """
        return self._predicted(inputs, None, self._marked)

    def _marked(self, tensors: list[torch.Tensor]) -> Any:
        with torch.profiler.record_function(MODEL_CALL):
            return self._call(tensors)

    def _predicted(
        self,
        inputs: Tensors,
        graph: "_CapturedGraph | None",
        call: Callable[[list[torch.Tensor]], Any] | None = None,
    ) -> Tensors:
        try:
            with torch.inference_mode():
                feed = self._feeds.get(id(inputs)) or self._fed(inputs)
                called = call or self._call
                answer = graph.replay(feed.tensors) if graph else called(feed.moved())
                if type(answer) is torch.Tensor:
                    return {self._name_of_one: array_of(answer)}
                return leaves_of(answer, self._names)
        except Exception as error:  # a model's own code raises what it likes
            raise PredictFailed(first_line(error)) from error

    def layers(self, warmed_with: Sequence[Tensors]) -> LayerCapture:
        """Begin a capture of layers. Raises PredictFailed."""
        if self._capturing is None:
            calls = Calls(
                self.predict,
                self.predict_directly,
                self.predict_marked,
                lambda inputs: self._call(Feed(inputs, self._options).moved()),
                lambda twin: PyTorchPredictor(self._request, self._options, twin).predict_marked,
            )
            self._capturing = Capturing(self.module, self._options, calls)
        return self._capturing.begin(warmed_with)

    def close(self) -> None:
        """Free the model, and what CUDA keeps for it."""
        self._feeds.clear()
        if self._capturing is not None:
            self._capturing.close()
        self._graph = self._capturing = None
        del self.module, self._call
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _fed(self, inputs: Tensors) -> Feed:
        if len(self._feeds) >= _MOST_BOUND:
            self._feeds.pop(next(iter(self._feeds)))
        feed = self._feeds[id(inputs)] = Feed(inputs, self._options)
        return feed

    def _opened(self) -> Opened:
        return Opened(
            framework="pytorch",
            framework_version=torch.__version__,
            inputs=tuple(
                TensorPlace(port.layer_name, port.shape, port.element_type)
                for port in self._request.model.inputs
            ),
            outputs=(),
            device="gpu" if self._device.type == "cuda" else "cpu",
            provider=_provider(self._device),
            precision=_precision(self.module, self._options),
            threads=torch.get_num_threads(),
            options=self._options.as_given(),
            deepest_level=Level.FRAMEWORK,
        )


class _CapturedGraph:
    """A CUDA graph of one call and the tensors it reads and writes."""

    def __init__(
        self, call: Callable[[list[torch.Tensor]], Any], tensors: Sequence[torch.Tensor]
    ) -> None:
        self._inputs = [each.clone() for each in tensors]
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.inference_mode(), torch.cuda.stream(stream):
            for _ in range(3):
                call(self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(self._graph):
            self._outputs = call(self._inputs)

    def replay(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Copy the inputs in from the host, replay, and return the outputs."""
        for own, given in zip(self._inputs, tensors, strict=True):
            own.copy_(given, non_blocking=True)
        self._graph.replay()
        return self._outputs


def _set_up(options: Options) -> None:
    """Set what is the process's own: one worker opens one model."""
    torch.set_num_threads(options.threads)
    if torch.get_num_interop_threads() != options.inter_threads:
        try:
            torch.set_num_interop_threads(options.inter_threads)
        except RuntimeError as error:
            # Possible once a process, before any work: the second model of a test's.
            raise OpenFailed("pytorch", f"inter_threads: {first_line(error)}") from error
    torch.backends.cuda.matmul.allow_tf32 = options.allow_tf32
    torch.backends.cudnn.allow_tf32 = options.allow_tf32


def _loaded(request: OpenRequest, watch: WeightWatch) -> Any:
    assets = request.model.model
    if assets.builder:
        return _with_weights(_built(request), request, watch)
    form = assets.format or _FORMATS.get(request.graph_path.suffix.lower(), "")
    if form == "torchscript":
        return torch.jit.load(io.BytesIO(request.graph), map_location="cpu")  # type: ignore[no-untyped-call]
    if form == "exported":
        return load_exported(request.graph)
    raise OpenFailed(
        request.model.name,
        f"format {form or request.graph_path.suffix!r} is none of torchscript, exported, "
        "and no builder is named",
    )


def _built(request: OpenRequest) -> Any:
    assets = request.model.model
    torch.manual_seed(assets.seed)
    return build(request.model.name, assets.builder, assets.arguments, request.builders)


def _with_weights(module: Any, request: OpenRequest, watch: WeightWatch) -> Any:
    path = request.weights_path
    if path is None:
        if "random" not in (request.model.model.weights, request.options.get("weights")):
            raise OpenFailed(
                request.model.name, "a builder needs weights_path, or `weights: random` and a seed"
            )
        return module
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file  # an extra: most models need none

        state = load_file(path)
    else:
        state = _unpickled(path, request.model.name)
    with watch.loading(module):
        module.load_state_dict(state.get("state_dict", state))
    return module


def _unpickled(path: Path, model: str) -> Any:
    """Return a state dict that needs no code to be read. Raises OpenFailed."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        reason = "is a pickle of more than tensors and plain data, which may run code"
        kept = "keep its state_dict alone, or safetensors"
        raise OpenFailed(model, f"{path.name} {reason}; {kept}") from error


def _placed(module: Any, options: Options, watch: WeightWatch) -> Any:
    if hasattr(module, "eval") and not isinstance(module, torch.fx.GraphModule):
        module = module.eval()
    if options.device == "cpu":
        module = module.to(options.device)
    else:
        with watch.placing(module):
            module = module.to(options.device)
    if options.precision != "float32":
        module = module.to(DTYPES[options.precision])
    if options.channels_last:
        module = module.to(memory_format=torch.channels_last)
    if options.compile != "none":
        mode = None if options.compile == "default" else options.compile
        module = torch.compile(module, mode=mode)
    return module


def _caller(
    module: Any, ports: Sequence[Port], options: Options
) -> Callable[[list[torch.Tensor]], Any]:
    """Return how the model is called with its inputs in the manifest's order."""
    names = [port.layer_name for port in ports]
    if options.call == "list":
        return lambda tensors: module(list(tensors[0].unbind()))
    if options.call == "keyword" or (options.call == "auto" and _takes(module, names)):
        return lambda tensors: module(**dict(zip(names, tensors, strict=True)))
    return lambda tensors: module(*tensors)


def _takes(module: Any, names: Sequence[str]) -> bool:
    """Whether a model of several inputs has parameters of just those names."""
    if len(names) < 2:
        return False
    try:
        known = inspect.signature(module.forward).parameters
    except (TypeError, ValueError, AttributeError):
        return False
    return all(name in known for name in names)


def _provider(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu ({torch.backends.cpu.get_cpu_capability()})"


def _is_quantized(module: Any) -> bool:
    """Whether a module computes in whole numbers; its packed weights are no parameters."""
    return type(module).__module__.startswith("torch.ao.nn.") and "quantized" in type(
        module
    ).__module__.split(".")


def _precision(module: Any, options: Options) -> str:
    """Return what the model is computed in: its parameters' types, and what that hides."""
    types: Mapping[torch.dtype, None] = {}
    if hasattr(module, "parameters"):
        types = dict.fromkeys(each.dtype for each in module.parameters())
    names = [str(each).removeprefix("torch.") for each in types] or [options.precision]
    text = "+".join(sorted(names))
    if hasattr(module, "modules") and any(_is_quantized(each) for each in module.modules()):
        return f"int8 (quantized {text})"
    if options.allow_tf32 and options.device.startswith("cuda") and text == "float32":
        return "float32 (tf32 allowed)"
    return text
