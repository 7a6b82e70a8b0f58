"""LiteRT (TensorFlow Lite): `.tflite` models on a CPU, by XNNPACK or the built-in kernels.

LiteRT has no profiler that Python reaches, so the deepest level is MODEL: to see layers, run the
model's ONNX or OpenVINO variant. Inputs and outputs are copied in and out.
"""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from schemas.level import Level
from services.agent.errors import (
    AgentError,
    BadOption,
    BatchSizeUnsupported,
    OpenFailed,
    PredictFailed,
)
from services.agent.predictors import Opened, OpenRequest, TensorPlace, Tensors
from services.agent.predictors.naming import names_for
from services.agent.predictors.opening import Opening
from services.agent.predictors.options import check_known, count, flag, usable_cores
from services.agent.predictors.shapes import first_line

_KNOWN = ("threads", "xnnpack")
_DISTRIBUTION = "ai-edge-litert"


@dataclass(frozen=True, slots=True)
class Options:
    """What an interpreter is made with."""

    threads: int
    #: XNNPACK's kernels where it has one; false is LiteRT's own everywhere
    xnnpack: bool


def options_of(given: Mapping[str, Any], device: str) -> Options:
    """Return the options of a request. Raises BadOption."""
    check_known(given, _KNOWN)
    if device not in ("", "cpu"):
        raise BadOption("device", device, "cpu: LiteRT's GPU delegates are not opened here")
    return Options(
        threads=count(given, "threads", usable_cores()),
        xnnpack=flag(given, "xnnpack", default=True),
    )


def open_model(request: OpenRequest) -> "LiteRtPredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    options = options_of(request.options, request.device)
    opening = Opening(request)
    try:
        interpreter = _interpreter(request.graph, options)
        declared = _declared(interpreter, request)
        _resize(interpreter, request)
    except AgentError:
        raise
    except (RuntimeError, ValueError) as error:  # what the interpreter's C++ code raises
        raise OpenFailed(request.model.name, first_line(error)) from error
    predictor = LiteRtPredictor(options, interpreter, declared)
    opening.loaded()
    _check_outputs(predictor.opened, opening.run_first(predictor), request.batch_size)
    return predictor


@dataclass(frozen=True, slots=True)
class _Declared:
    """A model's inputs and outputs as its file has them, with LiteRT's numbers for them."""

    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    places: tuple[tuple[TensorPlace, ...], tuple[TensorPlace, ...]]


class LiteRtPredictor:
    """An opened LiteRT model."""

    def __init__(self, options: Options, interpreter: Any, declared: _Declared) -> None:
        self._options = options
        self._interpreter = interpreter
        self._declared = declared
        self.opened = self._opened()

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        interpreter = self._interpreter
        try:
            for name, array in inputs.items():
                interpreter.set_tensor(self._declared.inputs[name], array)
            interpreter.invoke()
            return {
                name: interpreter.get_tensor(index)
                for name, index in self._declared.outputs.items()
            }
        except KeyError as error:
            raise PredictFailed(f"there is no input {error}") from error
        except (RuntimeError, ValueError) as error:
            raise PredictFailed(first_line(error)) from error

    def close(self) -> None:
        """Free the interpreter and its tensors."""
        del self._interpreter
        gc.collect()

    def _opened(self) -> Opened:
        return Opened(
            framework="litert",
            framework_version=version(_DISTRIBUTION),
            inputs=self._declared.places[0],
            outputs=self._declared.places[1],
            device="cpu",
            provider="XNNPACK" if self._options.xnnpack else "built-in kernels",
            precision=_precision(self._interpreter.get_tensor_details()),
            threads=self._options.threads,
            options=asdict(self._options),
            deepest_level=Level.MODEL,
            level_reason="LiteRT shows no layers to Python; the model's ONNX or OpenVINO form does",
        )


def _check_outputs(opened: Opened, outputs: Tensors, batch_size: int) -> None:
    """Check that a resized model answers for every sample. Raises BatchSizeUnsupported."""
    for first in opened.inputs[:1]:
        if batch_size == 1 or first.shape[:1] != (1,):
            return
        for place in opened.outputs:
            # A constant shape inside a graph may undo the new batch size without a word.
            if place.shape[:1] == (1,) and len(outputs[place.name]) != batch_size:
                raise BatchSizeUnsupported(batch_size, first.name, first.shape)


def _interpreter(graph: bytes, options: Options) -> Any:
    resolver = (
        OpResolverType.AUTO if options.xnnpack else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    return Interpreter(
        model_content=graph,
        num_threads=options.threads,
        experimental_op_resolver_type=resolver,
    )


def _declared(interpreter: Any, request: OpenRequest) -> _Declared:
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    signed_inputs, signed_outputs = _signed_names(interpreter)
    own_inputs = [signed_inputs.get(each["index"], each["name"]) for each in inputs]
    own_outputs = [signed_outputs.get(each["index"], each["name"]) for each in outputs]
    input_names = names_for(own_inputs, request.model.inputs)
    output_names = names_for(own_outputs, request.model.outputs)
    return _Declared(
        {name: each["index"] for name, each in zip(input_names, inputs, strict=True)},
        {name: each["index"] for name, each in zip(output_names, outputs, strict=True)},
        (_places(input_names, inputs), _places(output_names, outputs)),
    )


def _signed_names(interpreter: Any) -> tuple[dict[int, str], dict[int, str]]:
    """Return names by tensor number from the model's signature; none where it has not just one."""
    signatures = list(interpreter.get_signature_list())
    if len(signatures) != 1:
        return {}, {}
    runner = interpreter.get_signature_runner(signatures[0])
    found = (runner.get_input_details(), runner.get_output_details())
    inputs, outputs = ({each["index"]: name for name, each in one.items()} for one in found)
    return inputs, outputs


def _places(names: Sequence[str], details: Sequence[Any]) -> tuple[TensorPlace, ...]:
    return tuple(
        TensorPlace(
            name, tuple(int(size) for size in each["shape_signature"]), np.dtype(each["dtype"]).name
        )
        for name, each in zip(names, details, strict=True)
    )


def _resize(interpreter: Any, request: OpenRequest) -> None:
    """Give every batched input the batch size, and free sizes the manifest's.

    A first dimension of 1 may be a batch that a converter fixed: the first run shows.
    Raises BatchSizeUnsupported.
    """
    batch_size, ports = request.batch_size, request.model.inputs
    for number, each in enumerate(interpreter.get_input_details()):
        declared = [int(size) for size in each["shape_signature"]]
        if not declared:
            continue
        if declared[0] not in (-1, 1, batch_size):
            raise BatchSizeUnsupported(batch_size, each["name"], declared)
        wanted = ports[number].shape if number < len(ports) else ()
        if len(wanted) != len(declared):
            wanted = tuple(declared)
        rest = [max(b if a < 0 else a, 1) for a, b in zip(declared[1:], wanted[1:], strict=True)]
        interpreter.resize_tensor_input(each["index"], [batch_size, *rest])
    try:
        interpreter.allocate_tensors()
    except RuntimeError as error:
        places = interpreter.get_input_details()
        declared = [int(size) for size in places[0]["shape_signature"]] if places else []
        if batch_size > 1 and declared[:1] == [1]:
            raise BatchSizeUnsupported(batch_size, places[0]["name"], declared) from error
        raise


def _precision(tensors: Sequence[Any]) -> str:
    """Return what the model is computed in, by its tensors: quantized ones have a scale."""
    quantized = {
        np.dtype(each["dtype"]).name
        for each in tensors
        if each["quantization"][0] and np.dtype(each["dtype"]).kind in "iu"
    }
    narrow = quantized - {"int32", "int64"}
    if narrow:
        return f"{'+'.join(sorted(narrow))} (quantized)"
    if any(each["dtype"] is np.float16 for each in tensors):
        return "float32 (float16 weights)"
    return "float32"
