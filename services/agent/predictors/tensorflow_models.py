"""TensorFlow models on disk: SavedModels, frozen graphs and Keras, each as one call on arrays."""

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
from services.agent.predictors.tensorflow_layers import (
    Twin,
    frozen_session,
    saved_session,
    session_of,
)
from services.agent.predictors.tensorflow_options import Options

_PRODUCTS = ("MatMul", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Einsum", "Mul", "BatchMatMul")
_FORMATS = {".pb": "frozen", ".keras": "keras"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model as a call on arrays in the inputs' order, returning arrays in the outputs'."""

    call: Callable[[Sequence[Any]], Sequence[Any]]
    inputs: tuple[TensorPlace, ...]
    outputs: tuple[TensorPlace, ...]
    precision: str
    #: whatever must live as long as the call; `close` is called on a session
    session: Any = None
    #: opens a session that can be traced beside it; None where XLA runs the model
    twin: Callable[[], Twin] | None = None
    #: the optimised HLO text of what XLA runs, from arrays of its inputs
    compiled: Callable[[Sequence[Any]], str] | None = None


def form_of(request: OpenRequest) -> str:
    """Return saved_model, frozen, keras or builder. Raises OpenFailed."""
    assets = request.model.model
    if assets.builder:
        return "builder"
    form = assets.format or _FORMATS.get(request.graph_path.suffix.lower(), "")
    if not form and request.graph_path.is_dir():
        form = "saved_model"
    if form not in ("saved_model", "frozen", "keras"):
        raise OpenFailed(
            request.model.name,
            f"format {form or request.graph_path.suffix!r} is none of saved_model, frozen, keras, "
            "and no builder is named",
        )
    return form


def loaded(request: OpenRequest, form: str, options: Options) -> Loaded:
    """Open a model of a form. Raises OpenFailed, BatchSizeUnsupported; TensorFlow's own errors."""
    if form == "saved_model":
        return _saved_model(request, options)
    if form == "frozen":
        return _frozen(request, options)
    return _keras(request, form, options)


def _saved_model(request: OpenRequest, options: Options) -> Loaded:
    whole = tf.saved_model.load(str(request.graph_path))
    known = sorted(whole.signatures)
    if options.signature not in known:
        raise OpenFailed(
            request.model.name,
            f"has no signature {options.signature}; it has: {', '.join(known) or 'none'}",
        )
    function = whole.signatures[options.signature]
    specs = function.structured_input_signature[1]
    called = function
    if options.jit_compile:
        # Signatures take their inputs by keyword only, and so does what wraps them.
        called = tf.function(lambda **tensors: function(**tensors), jit_compile=True)
    answers = list(function.structured_outputs)
    places = _checked(_places(specs, specs.values(), request.model.inputs), request.batch_size)

    def call(arrays: Sequence[Any]) -> Sequence[Any]:
        tensors = {name: tf.constant(a) for name, a in zip(specs, arrays, strict=True)}
        answer = called(**tensors)
        return [answer[name].numpy() for name in answers]

    outputs = _places(answers, function.structured_outputs.values(), request.model.outputs)
    precision = computed_in(function.graph.as_graph_def())
    if options.jit_compile:
        return Loaded(
            call,
            places,
            outputs,
            precision,
            whole,
            compiled=lambda arrays: _hlo(called, **dict(zip(specs, arrays, strict=True))),
        )
    folder = str(request.graph_path)

    def twin() -> Twin:
        return saved_session(folder, options.signature, function, _settings(options))

    return Loaded(call, places, outputs, precision, whole, twin)


def _frozen(request: OpenRequest, options: Options) -> Loaded:
    definition = tf.compat.v1.GraphDef()
    definition.ParseFromString(request.graph)
    graph = tf.Graph()
    with graph.as_default(), tf.device(f"/{options.device}"):
        tf.import_graph_def(definition, name="")
    feeds = [_tensor(graph, port, request) for port in request.model.inputs]
    fetches = [_tensor(graph, port, request) for port in request.model.outputs]
    session = tf.compat.v1.Session(graph=graph, config=_settings(options))
    run = session.make_callable(fetches, feeds)
    names = [port.layer_name for port in request.model.inputs]
    inputs = _checked(_places(names, feeds, ()), request.batch_size)
    outputs = _places([port.layer_name for port in request.model.outputs], fetches, ())

    def call(arrays: Sequence[Any]) -> Sequence[Any]:
        answers: Sequence[Any] = run(*arrays)
        return answers

    def twin() -> Twin:
        return session_of(graph, feeds, fetches, _settings(options))

    return Loaded(call, inputs, outputs, computed_in(definition), session, twin)


def _keras(request: OpenRequest, form: str, options: Options) -> Loaded:
    # Keras chooses its backend when it is first imported.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras

    if keras.backend.backend() != "tensorflow":
        raise OpenFailed(request.model.name, f"Keras runs on {keras.backend.backend()} here")
    if form == "keras":
        model = keras.models.load_model(request.graph_path, compile=False, safe_mode=True)
    else:
        model = _built(request, options, keras)
    specs = [
        tf.TensorSpec((request.batch_size, *_sized(each.shape, port)[1:]), each.dtype)
        for each, port in zip(model.inputs, request.model.inputs, strict=True)
    ]
    names = [each.name for each in model.inputs]
    inputs = _checked(_places(names, model.inputs, request.model.inputs), request.batch_size)
    call = tf.function(
        lambda *tensors: tf.nest.flatten(model(_as_taken(model, tensors), training=False)),
        jit_compile=options.jit_compile,
    )
    concrete = call.get_concrete_function(*specs)

    def on_arrays(arrays: Sequence[Any]) -> Sequence[Any]:
        return [each.numpy() for each in concrete(*(tf.constant(a) for a in arrays))]

    outputs = _places(list(model.output_names), model.outputs, request.model.outputs)
    precision = computed_in(concrete.graph.as_graph_def())
    if options.jit_compile:
        return Loaded(
            on_arrays,
            inputs,
            outputs,
            precision,
            model,
            compiled=lambda arrays: _hlo(call, *arrays),
        )

    def twin() -> Twin:
        return frozen_session(concrete, _settings(options))

    return Loaded(on_arrays, inputs, outputs, precision, model, twin)


def _settings(options: Options) -> Any:
    return tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=options.threads,
        inter_op_parallelism_threads=options.inter_threads,
    )


def _hlo(function: Any, *arrays: Any, **named: Any) -> str:
    """Return the text of the program that XLA makes of a function for some inputs."""
    tensors = [tf.constant(each) for each in arrays]
    by_name = {name: tf.constant(each) for name, each in named.items()}
    told = function.experimental_get_compiler_ir(*tensors, **by_name)(stage="optimized_hlo")
    return str(told)


def _built(request: OpenRequest, options: Options, keras: Any) -> Any:
    assets = request.model.model
    if assets.arguments.get("weights") is not None:
        raise OpenFailed(
            request.model.name, "a builder's weights come from weights_path, never by its argument"
        )
    if request.weights_path is None and assets.weights != "random":
        raise OpenFailed(
            request.model.name, "a builder needs weights_path, or `weights: random` and a seed"
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
    """Return a graph's precision: the types of its products, or else of its inputs."""
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    types = {tf.dtypes.as_dtype(n.attr["T"].type).name for n in nodes if _is_product(n)}
    if not types:
        found = (n.attr["dtype"].type for n in nodes if n.op == "Placeholder")
        types = {tf.dtypes.as_dtype(each).name for each in found}
    floats = sorted(each for each in types if "float" in each)
    if any(n.op.startswith("Quantized") or n.op == "FakeQuantWithMinMaxVars" for n in nodes):
        return f"int8 (quantized {'+'.join(floats) or 'float32'})"
    return "+".join(floats) or "float32"


def _is_product(node: Any) -> bool:
    return bool(node.op.startswith(_PRODUCTS) and node.attr["T"].type != 0)


def _tensor(graph: Any, port: Port, request: OpenRequest) -> Any:
    name = port.layer_name if ":" in port.layer_name else f"{port.layer_name}:0"
    try:
        return graph.get_tensor_by_name(name)
    except (KeyError, ValueError) as error:
        known = [node.name for node in graph.get_operations()]
        raise OpenFailed(
            request.model.name,
            f"the graph has no layer {port.layer_name!r}; it begins with "
            f"{', '.join(known[:3])} and ends with {', '.join(known[-3:])}",
        ) from error


def _places(
    names: Iterable[str], tensors: Iterable[Any], ports: Sequence[Port]
) -> tuple[TensorPlace, ...]:
    return tuple(
        TensorPlace(name, _shape(each), tf.dtypes.as_dtype(each.dtype).name)
        for name, each in zip(names_for(list(names), ports), tensors, strict=True)
    )


def _shape(tensor: Any) -> tuple[int, ...]:
    shape = tf.TensorShape(tensor.shape)
    if shape.rank is None:
        return ()
    return tuple(-1 if size is None else int(size) for size in shape)


def _checked(places: tuple[TensorPlace, ...], batch_size: int) -> tuple[TensorPlace, ...]:
    """Return the places. Raises BatchSizeUnsupported."""
    for place in places:
        if place.shape and place.shape[0] not in (-1, batch_size):
            raise BatchSizeUnsupported(batch_size, place.name, place.shape)
    return places


def _sized(shape: Sequence[Any], port: Port) -> list[Any]:
    wanted: Sequence[int] = port.shape if len(port.shape) == len(shape) else [-1] * len(shape)
    return [(b if b > 0 else None) if a is None else a for a, b in zip(shape, wanted, strict=True)]


def _as_taken(model: Any, tensors: Sequence[Any]) -> Any:
    """Return tensors as a model's call takes them: one alone, or all in the inputs' structure."""
    structure: Mapping[str, Any] | Sequence[Any] | Any = getattr(model, "_inputs_struct", None)
    if len(tensors) == 1 and not isinstance(structure, Mapping | list | tuple):
        return tensors[0]
    return tf.nest.pack_sequence_as(structure, list(tensors)) if structure else list(tensors)
