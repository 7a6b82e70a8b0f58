"""Load TensorFlow models: SavedModels, frozen graphs and Keras, each as one call on arrays."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from schemas.manifest import Port
from services.agent.errors import BatchSizeUnsupported, OpenFailed
from services.agent.predictors import OpenRequest, TensorPlace
from services.agent.predictors.building import build
from services.agent.predictors.naming import names_for
from services.agent.predictors.tensorflow.layers import (
    Twin,
    frozen_session,
    saved_session,
    session_of,
)
from services.agent.predictors.tensorflow.options import Options

_PRODUCTS = ("MatMul", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Einsum", "Mul", "BatchMatMul")
_FORMATS = {".pb": "frozen", ".keras": "keras"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model as a call: it takes arrays in the inputs' order and returns them in the outputs'."""

    call: Callable[[Sequence[Any]], Sequence[Any]]
    inputs: tuple[TensorPlace, ...]
    outputs: tuple[TensorPlace, ...]
    precision: str
    #: an object that must live as long as the call; `close` is called on a session
    session: Any = None
    #: opens another session that can be traced; None where XLA runs the model
    twin: Callable[[], Twin] | None = None
    #: returns the optimised HLO text of the program that XLA runs for these input arrays
    hlo_text: Callable[[Sequence[Any]], str] | None = None


def form_of(request: OpenRequest) -> str:
    """Return saved_model, frozen, keras or builder. Raises OpenFailed for any other format."""
    assets = request.model.model
    if assets.builder:
        return "builder"
    form = assets.format or _FORMATS.get(request.graph_path.suffix.lower(), "")
    if not form and request.graph_path.is_dir():
        form = "saved_model"
    if form not in ("saved_model", "frozen", "keras"):
        raise OpenFailed(
            request.model.name,
            f"format {form or request.graph_path.suffix!r} is not saved_model, frozen or keras, "
            "and no builder is named",
        )
    return form


def load(request: OpenRequest, form: str, options: Options) -> Loaded:
    """Load the `request`'s model by the `options`.

    `form` is what `form_of` returned. Raises OpenFailed, BatchSizeUnsupported, and errors of
    TensorFlow's own.
    """
    if form == "saved_model":
        return load_saved_model(request, options)
    if form == "frozen":
        return load_frozen(request, options)
    return load_keras(request, form, options)


def load_saved_model(request: OpenRequest, options: Options) -> Loaded:
    """Load one signature of a SavedModel. Raises OpenFailed where it has no such signature."""
    saved = tf.saved_model.load(str(request.graph_path))
    signatures = sorted(saved.signatures)
    if options.signature not in signatures:
        raise OpenFailed(
            request.model.name,
            f"has no signature {options.signature}; it has: {', '.join(signatures) or 'none'}",
        )
    function = saved.signatures[options.signature]
    specs = function.structured_input_signature[1]
    compiled = function
    if options.jit_compile:
        # A signature takes its inputs by keyword only.
        compiled = tf.function(lambda **tensors: function(**tensors), jit_compile=True)
    output_names = list(function.structured_outputs)
    inputs = _places(specs, specs.values(), request.model.inputs)
    _check_batch_size(inputs, request.batch_size)

    def call(arrays: Sequence[Any]) -> Sequence[Any]:
        tensors = {name: tf.constant(a) for name, a in zip(specs, arrays, strict=True)}
        outputs = compiled(**tensors)
        return [outputs[name].numpy() for name in output_names]

    outputs = _places(output_names, function.structured_outputs.values(), request.model.outputs)
    precision = computed_in(function.graph.as_graph_def())
    if options.jit_compile:
        return Loaded(
            call,
            inputs,
            outputs,
            precision,
            saved,
            hlo_text=lambda arrays: _hlo_text(compiled, **dict(zip(specs, arrays, strict=True))),
        )
    folder = str(request.graph_path)

    def twin() -> Twin:
        return saved_session(folder, options.signature, function, _session_config(options))

    return Loaded(call, inputs, outputs, precision, saved, twin)


def load_frozen(request: OpenRequest, options: Options) -> Loaded:
    """Load a frozen graph, between the layers that the manifest names. Raises OpenFailed."""
    definition = tf.compat.v1.GraphDef()
    definition.ParseFromString(request.graph)
    graph = tf.Graph()
    with graph.as_default(), tf.device(f"/{options.device}"):
        tf.import_graph_def(definition, name="")
    feeds = [_graph_tensor(graph, port, request) for port in request.model.inputs]
    fetches = [_graph_tensor(graph, port, request) for port in request.model.outputs]
    session = tf.compat.v1.Session(graph=graph, config=_session_config(options))
    run = session.make_callable(fetches, feeds)
    inputs = _places([port.layer_name for port in request.model.inputs], feeds, ())
    _check_batch_size(inputs, request.batch_size)
    outputs = _places([port.layer_name for port in request.model.outputs], fetches, ())

    def call(arrays: Sequence[Any]) -> Sequence[Any]:
        values: Sequence[Any] = run(*arrays)
        return values

    def twin() -> Twin:
        return session_of(graph, feeds, fetches, _session_config(options))

    return Loaded(call, inputs, outputs, computed_in(definition), session, twin)


def load_keras(request: OpenRequest, form: str, options: Options) -> Loaded:
    """Load a `request`'s Keras model, traced as one function for its batch size.

    `form` is keras or builder, as `form_of` returned it. Sizes that the model leaves free are the
    manifest's; the `options` say whether XLA compiles it. Raises OpenFailed, BatchSizeUnsupported.
    """
    model = keras_model(request, form, options)
    specs = []
    for tensor, port in zip(model.inputs, request.model.inputs, strict=True):
        free = [-1] * len(tensor.shape)
        port_shape = port.shape if len(port.shape) == len(free) else free
        # A size that the model leaves free is the manifest's; None where that is free too.
        sizes = [
            (new if new > 0 else None) if size is None else size
            for size, new in zip(tensor.shape, port_shape, strict=True)
        ]
        specs.append(tf.TensorSpec((request.batch_size, *sizes[1:]), tensor.dtype))
    names = [tensor.name for tensor in model.inputs]
    inputs = _places(names, model.inputs, request.model.inputs)
    _check_batch_size(inputs, request.batch_size)
    function = tf.function(
        lambda *tensors: tf.nest.flatten(model(_structured(model, tensors), training=False)),
        jit_compile=options.jit_compile,
    )
    concrete = function.get_concrete_function(*specs)

    def call(arrays: Sequence[Any]) -> Sequence[Any]:
        return [output.numpy() for output in concrete(*(tf.constant(a) for a in arrays))]

    outputs = _places(list(model.output_names), model.outputs, request.model.outputs)
    precision = computed_in(concrete.graph.as_graph_def())
    if options.jit_compile:
        return Loaded(
            call,
            inputs,
            outputs,
            precision,
            model,
            hlo_text=lambda arrays: _hlo_text(function, *arrays),
        )

    def twin() -> Twin:
        return frozen_session(concrete, _session_config(options))

    return Loaded(call, inputs, outputs, precision, model, twin)


def _session_config(options: Options) -> Any:
    return tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=options.threads,
        inter_op_parallelism_threads=options.inter_threads,
    )


def _hlo_text(function: Any, *arrays: Any, **named_arrays: Any) -> str:
    """Return the text of the program that XLA compiles a function into for these inputs."""
    tensors = [tf.constant(array) for array in arrays]
    named = {name: tf.constant(array) for name, array in named_arrays.items()}
    text_of = function.experimental_get_compiler_ir(*tensors, **named)
    return str(text_of(stage="optimized_hlo"))


def keras_model(request: OpenRequest, form: str, options: Options) -> Any:
    """Return the Keras model of a `request`'s file, or that which a builder makes, with weights.

    `form` is keras or builder; a builder's model computes in the precision of the `options`. Raises
    OpenFailed.
    """
    # Keras chooses its backend when it is first imported.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras

    if keras.backend.backend() != "tensorflow":
        raise OpenFailed(
            request.model.name,
            f"Keras uses {keras.backend.backend()} in this process, not tensorflow",
        )
    if form == "keras":
        return keras.models.load_model(request.graph_path, compile=False, safe_mode=True)
    assets = request.model.model
    if assets.arguments.get("weights") is not None:
        raise OpenFailed(
            request.model.name,
            "the manifest names weights by weights_path; remove `weights` from the arguments",
        )
    if request.weights_path is None and assets.weights != "random":
        raise OpenFailed(
            request.model.name,
            "the manifest's builder needs weights_path, or `weights: random` and a seed",
        )
    keras.utils.set_random_seed(assets.seed)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(options.precision)
    try:
        arguments = dict(assets.arguments)
        if assets.builder.startswith("keras.applications."):
            arguments["weights"] = None
        model = build(request.model.name, assets.builder, arguments, request.builders)
    finally:
        keras.config.set_dtype_policy(before)
    if request.weights_path is not None:
        model.load_weights(request.weights_path)
    return model


def computed_in(definition: Any) -> str:
    """Return a graph's precision: the types of its products; without any, of its inputs."""
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    numbers = {
        node.attr["T"].type
        for node in nodes
        if node.op.startswith(_PRODUCTS) and node.attr["T"].type != 0
    }
    if not numbers:
        numbers = {node.attr["dtype"].type for node in nodes if node.op == "Placeholder"}
    names = {tf.dtypes.as_dtype(number).name for number in numbers}
    floats = sorted(name for name in names if "float" in name)
    if any(n.op.startswith("Quantized") or n.op == "FakeQuantWithMinMaxVars" for n in nodes):
        return f"int8 (quantized {'+'.join(floats) or 'float32'})"
    return "+".join(floats) or "float32"


def _graph_tensor(graph: Any, port: Port, request: OpenRequest) -> Any:
    """Return the tensor that a port names. Raises OpenFailed when there is none."""
    name = port.layer_name if ":" in port.layer_name else f"{port.layer_name}:0"
    try:
        return graph.get_tensor_by_name(name)
    except (KeyError, ValueError) as error:
        nodes = [node.name for node in graph.get_operations()]
        raise OpenFailed(
            request.model.name,
            f"the graph has no layer {port.layer_name!r}; it begins with "
            f"{', '.join(nodes[:3])} and ends with {', '.join(nodes[-3:])}",
        ) from error


def _places(
    names: Iterable[str], tensors: Iterable[Any], ports: Sequence[Port]
) -> tuple[TensorPlace, ...]:
    """Describe tensors: a shape of unknown rank is (), an unknown size -1."""
    places = []
    for name, tensor in zip(names_for(list(names), ports), tensors, strict=True):
        shape = tf.TensorShape(tensor.shape)
        sizes = [] if shape.rank is None else [-1 if n is None else int(n) for n in shape]
        places.append(TensorPlace(name, tuple(sizes), tf.dtypes.as_dtype(tensor.dtype).name))
    return tuple(places)


def _check_batch_size(places: tuple[TensorPlace, ...], batch_size: int) -> None:
    """Raise BatchSizeUnsupported for an input that has another fixed batch size."""
    for place in places:
        if place.shape and place.shape[0] not in (-1, batch_size):
            raise BatchSizeUnsupported(batch_size, place.name, place.shape)


def _structured(model: Any, tensors: Sequence[Any]) -> Any:
    """Return tensors as a model's call takes them: one alone, or all in the inputs' structure."""
    structure: Mapping[str, Any] | Sequence[Any] | Any = getattr(model, "_inputs_struct", None)
    if len(tensors) == 1 and not isinstance(structure, Mapping | list | tuple):
        return tensors[0]
    return tf.nest.pack_sequence_as(structure, list(tensors)) if structure else list(tensors)
