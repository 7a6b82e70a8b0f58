"""A JAX model on disk: an exported program, or a builder's function with its parameters."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from schemas.manifest import Port
from services.agent.errors import BatchSizeUnsupported, OpenFailed
from services.agent.predictors import OpenRequest, TensorPlace
from services.agent.predictors.building import build
from services.agent.predictors.naming import names_for

_OPERANDS = re.compile(
    r"stablehlo\.(?:dot_general|dot|convolution)\b.*: \(tensor<([^>]+)>, tensor<([^>]+)>\)"
)
_MAIN_TENSORS = re.compile(r"func\.func public @main.*")
_TENSOR = re.compile(r"tensor<([^>]+)>")
_CALLBACK = re.compile(r"custom_call @(\w*callback\w*)")
_TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8"}
_MOST_ELEMENTS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Program:
    """A function of parameters and of inputs in order, and the inputs' places."""

    function: Callable[..., Any]
    parameters: Any
    inputs: tuple[TensorPlace, ...]


def is_exported(request: OpenRequest) -> bool:
    """Whether a request is for an exported program. Raises OpenFailed when for nothing known."""
    assets = request.model.model
    if assets.builder:
        return False
    if assets.format in ("jax_export", "") and (assets.format or request.graph):
        return True
    raise OpenFailed(
        request.model.name, f"format {assets.format!r} is not jax_export, and no builder is named"
    )


def exported_program(request: OpenRequest) -> Program:
    """Return a program that `jax.export` wrote. Raises OpenFailed, BatchSizeUnsupported."""
    exported = jax.export.deserialize(bytearray(request.graph))
    names = names_for(_input_names(exported.in_tree), request.model.inputs)
    places = tuple(
        TensorPlace(name, tuple(_size(size) for size in aval.shape), aval.dtype.name)
        for name, aval in zip(names, exported.in_avals, strict=True)
    )
    for place in places:
        if place.shape and place.shape[0] not in (-1, request.batch_size):
            raise BatchSizeUnsupported(request.batch_size, place.name, place.shape)

    def function(_: Any, *leaves: Any) -> Any:
        args, kwargs = jax.tree_util.tree_unflatten(exported.in_tree, leaves)
        return exported.call(*args, **kwargs)

    return Program(function, (), places)


def built_program(request: OpenRequest, precision: str) -> Program:
    """Return what a builder makes, cast to `precision`. Raises OpenFailed.

    A builder returns a function of the inputs, or (apply, parameters); one whose weights are
    random is called with `seed`.
    """
    assets = request.model.model
    arguments = dict(assets.arguments)
    if assets.weights == "random":
        arguments = {"seed": assets.seed, **arguments}
    made = build(request.model.name, assets.builder, arguments, request.builders)
    function, parameters = made if isinstance(made, tuple) else (_without_parameters(made), ())
    if request.weights_path is not None:
        parameters = with_weights(request.model.name, parameters, request.weights_path)
    elif assets.weights != "random" and jax.tree_util.tree_leaves(parameters):
        raise OpenFailed(
            request.model.name, "a builder needs weights_path, or `weights: random` and a seed"
        )
    dtype = jnp.dtype(precision)
    places = tuple(TensorPlace(p.layer_name, p.shape, p.element_type) for p in request.model.inputs)
    takes_names = _takes(function, request.model.inputs, isinstance(made, tuple))

    def called(given: Any, *leaves: Any) -> Any:
        inputs = [_cast(each, dtype) for each in leaves]
        if takes_names:
            named = dict(zip((place.name for place in places), inputs, strict=True))
            answer = function(given, **named)
        else:
            answer = function(given, *inputs)
        return jax.tree_util.tree_map(lambda each: _cast(each, jnp.float32), answer)

    return Program(called, jax.tree_util.tree_map(lambda p: _cast(p, dtype), parameters), places)


def with_weights(model: str, parameters: Any, path: Path) -> Any:
    """Return parameters with a `.npz` or `.safetensors` file's arrays, by their dotted path.

    Raises OpenFailed when names or shapes are not the parameters' own.
    """
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file  # an extra: most models need none

        arrays: Mapping[str, Any] = load_file(path)
    else:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
    leaves, tree = jax.tree_util.tree_flatten_with_path(parameters)
    names = [path_name(each) for each, _ in leaves]
    if set(names) != set(arrays):
        odd = sorted(set(names) ^ set(arrays))
        raise OpenFailed(model, f"weights and model differ in {', '.join(odd[:5])}")
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if arrays[name].shape != jnp.shape(leaf):
            raise OpenFailed(
                model, f"weights {name} are {arrays[name].shape}, not {jnp.shape(leaf)}"
            )
    return jax.tree_util.tree_unflatten(tree, [arrays[name] for name in names])


def path_name(path: Sequence[Any]) -> str:
    """Return where a leaf of a tree is, as `layers.0.kernel`."""
    return ".".join(str(_key(each)) for each in path)


def computed_in(lowered: Any) -> tuple[str, str]:
    """Return a lowered program's precision and the host callback it makes, '' when none.

    The precision is that of what its products and convolutions take, or else of its inputs.
    """
    module = lowered.compiler_ir("stablehlo")
    text = module.operation.get_asm(large_elements_limit=_MOST_ELEMENTS_SHOWN)
    found = {part for pair in _OPERANDS.findall(text) for part in pair}
    if not found:
        found = {part for line in _MAIN_TENSORS.findall(text) for part in _TENSOR.findall(line)}
    kinds = {part.rpartition("x")[2] for part in found}
    types = sorted({_TYPES.get(kind, kind) for kind in kinds if kind in _TYPES or "f8" in kind})
    called = _CALLBACK.search(text)
    return "+".join(types) or "float32", called.group(1) if called else ""


def _input_names(tree: Any) -> list[str]:
    """Return the names an exported program's inputs go by: keys where it takes a map."""
    whole = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(whole)[0]]
    last = [str(_key(path[-1])) for path in paths]
    return last if len(set(last)) == len(last) else [path_name(path[1:]) for path in paths]


def _key(entry: Any) -> Any:
    for kind in ("key", "idx", "name"):
        if hasattr(entry, kind):
            return getattr(entry, kind)
    return entry


def _size(size: Any) -> int:
    return size if isinstance(size, int) else -1


def _cast(value: Any, dtype: Any) -> Any:
    """Return a floating value in another floating type, and anything else as it is."""
    if jnp.issubdtype(jnp.result_type(value), jnp.floating):
        return jnp.asarray(value, dtype)
    return value


def _without_parameters(function: Any) -> Callable[..., Any]:
    def called(_: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    if callable(function):
        called.__wrapped__ = function  # type: ignore[attr-defined]
    return called


def _takes(function: Any, ports: Sequence[Port], has_parameters: bool) -> bool:
    """Whether a function of several inputs has parameters of just their names."""
    if len(ports) < 2:
        return False
    try:
        known = list(inspect.signature(function).parameters)[1 if has_parameters else 0 :]
    except (TypeError, ValueError):
        return False
    return all(port.layer_name in known for port in ports)
