"""LiteRT (TensorFlow Lite): `.tflite` models on a CPU, with XNNPACK or the built-in kernels.

LiteRT has no profiler that Python can use, so the deepest level is MODEL. To see layers, run the
model's ONNX or OpenVINO variant. Inputs and outputs are copied.
"""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from schemas.level import Level
from schemas.manifest import Port
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

_DISTRIBUTION = "ai-edge-litert"


@dataclass(frozen=True, slots=True)
class Options:
    """The options that an interpreter is made with."""

    threads: int
    #: use XNNPACK's kernels where it has one; false uses LiteRT's own everywhere
    xnnpack: bool


def options_of(requested: Mapping[str, Any], device: str) -> Options:
    """Return the options of a request. Raises BadOption."""
    check_known(requested, "litert")
    if device not in ("", "cpu"):
        raise BadOption("device", device, "cpu: LiteRT's GPU delegates are not opened here")
    return Options(
        threads=count(requested, "threads", usable_cores()),
        xnnpack=flag(requested, "xnnpack", default=True),
    )


def open_model(request: OpenRequest) -> "LiteRtPredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    options = options_of(request.options, request.device)
    opening = Opening(request)
    try:
        resolver = OpResolverType.AUTO
        if not options.xnnpack:
            resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter = Interpreter(
            model_content=request.graph,
            num_threads=options.threads,
            experimental_op_resolver_type=resolver,
        )
        places = _places(interpreter, request)
        _resize(interpreter, request)
    except AgentError:
        raise
    except (RuntimeError, ValueError) as error:  # what the interpreter's C++ code raises
        raise OpenFailed(request.model.name, first_line(error)) from error
    predictor = LiteRtPredictor(options, interpreter, places)
    opening.mark_loaded()
    outputs = opening.run_first(predictor)
    first_input = next(iter(predictor.opened.inputs), None)
    if request.batch_size > 1 and first_input is not None and first_input.shape[:1] == (1,):
        for place in predictor.opened.outputs:
            # A constant shape inside a graph may silently undo the new batch size.
            if place.shape[:1] == (1,) and len(outputs[place.name]) != request.batch_size:
                raise BatchSizeUnsupported(request.batch_size, first_input.name, first_input.shape)
    return predictor


@dataclass(frozen=True, slots=True)
class _Places:
    """A model's declared inputs and outputs, and LiteRT's number of each of these tensors."""

    inputs: tuple[TensorPlace, ...]
    outputs: tuple[TensorPlace, ...]
    input_numbers: Mapping[str, int]
    output_numbers: Mapping[str, int]


class LiteRtPredictor:
    """An opened LiteRT model."""

    def __init__(self, options: Options, interpreter: Any, places: _Places) -> None:
        """Take an `interpreter` whose tensors are allocated, and its model's `places`.

        `options` are those that it was made with.
        """
        self._interpreter = interpreter
        self._places = places
        # Quantized tensors have a scale; those of 32 bits and more are sums.
        tensors = interpreter.get_tensor_details()
        types = {np.dtype(tensor["dtype"]) for tensor in tensors if tensor["quantization"][0]}
        quantized = {element_type.name for element_type in types if element_type.kind in "iu"}
        narrow = sorted(quantized - {"int32", "int64"})
        precision = "float32"
        if narrow:
            precision = f"{'+'.join(narrow)} (quantized)"
        elif any(tensor["dtype"] is np.float16 for tensor in tensors):
            precision = "float32 (float16 weights)"
        self.opened = Opened(
            framework="litert",
            framework_version=version(_DISTRIBUTION),
            inputs=places.inputs,
            outputs=places.outputs,
            device="cpu",
            provider="XNNPACK" if options.xnnpack else "built-in kernels",
            precision=precision,
            threads=options.threads,
            options=asdict(options),
            deepest_level=Level.MODEL,
            level_reason=(
                "LiteRT does not show layers to Python; run the model's ONNX or OpenVINO variant"
            ),
        )

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        interpreter = self._interpreter
        try:
            for name, array in inputs.items():
                interpreter.set_tensor(self._places.input_numbers[name], array)
            interpreter.invoke()
            return {
                name: interpreter.get_tensor(number)
                for name, number in self._places.output_numbers.items()
            }
        except KeyError as error:
            raise PredictFailed(f"the model has no input {error}") from error
        except (RuntimeError, ValueError) as error:
            raise PredictFailed(first_line(error)) from error

    def close(self) -> None:
        """Free the interpreter and its tensors."""
        del self._interpreter
        gc.collect()


def _places(interpreter: Any, request: OpenRequest) -> _Places:
    input_details, output_details = (
        interpreter.get_input_details(),
        interpreter.get_output_details(),
    )
    # A model's only signature has better names than its tensors.
    names = {tensor["index"]: tensor["name"] for tensor in (*input_details, *output_details)}
    signatures = list(interpreter.get_signature_list())
    signed_inputs, signed_outputs = {}, {}
    if len(signatures) == 1:
        runner = interpreter.get_signature_runner(signatures[0])
        signed_inputs = {t["index"]: name for name, t in runner.get_input_details().items()}
        signed_outputs = {t["index"]: name for name, t in runner.get_output_details().items()}
    inputs = _described(input_details, names | signed_inputs, request.model.inputs)
    outputs = _described(output_details, names | signed_outputs, request.model.outputs)
    return _Places(
        tuple(inputs.values()),
        tuple(outputs.values()),
        {place.name: number for number, place in inputs.items()},
        {place.name: number for number, place in outputs.items()},
    )


def _described(
    details: Sequence[Any], names: Mapping[int, str], ports: Sequence[Port]
) -> dict[int, TensorPlace]:
    """Return the description of each tensor by its number, named by `names_for`."""
    own_names = [names[tensor["index"]] for tensor in details]
    described: dict[int, TensorPlace] = {}
    for name, tensor in zip(names_for(own_names, ports), details, strict=True):
        shape = tuple(int(size) for size in tensor["shape_signature"])
        kind = np.dtype(tensor["dtype"]).name
        described[tensor["index"]] = TensorPlace(name, shape, kind)
    return described


def _resize(interpreter: Any, request: OpenRequest) -> None:
    """Set the batch size of every batched input; free sizes become the manifest's.

    A first dimension of 1 may be a batch size that a converter fixed; the first run will show.
    Raises BatchSizeUnsupported.
    """
    batch_size, ports = request.batch_size, request.model.inputs
    for number, tensor in enumerate(interpreter.get_input_details()):
        declared = [int(size) for size in tensor["shape_signature"]]
        if not declared:
            continue
        if declared[0] not in (-1, 1, batch_size):
            raise BatchSizeUnsupported(batch_size, tensor["name"], declared)
        filling = ports[number].shape if number < len(ports) else ()
        if len(filling) != len(declared):
            filling = tuple(declared)
        sizes = [max(b if a < 0 else a, 1) for a, b in zip(declared[1:], filling[1:], strict=True)]
        interpreter.resize_tensor_input(tensor["index"], [batch_size, *sizes])
    try:
        interpreter.allocate_tensors()
    except RuntimeError as error:
        tensors = interpreter.get_input_details()
        declared = [int(size) for size in tensors[0]["shape_signature"]] if tensors else []
        if batch_size > 1 and declared[:1] == [1]:
            raise BatchSizeUnsupported(batch_size, tensors[0]["name"], declared) from error
        raise
