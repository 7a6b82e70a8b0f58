"""Read JAX models: exported programs, and builders' functions with their parameters."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

from services.agent.errors import BatchSizeUnsupported, OpenFailed
from services.agent.predictors import OpenRequest, TensorPlace
from services.agent.predictors.building import build
from services.agent.predictors.naming import names_for, takes_names

_OPERANDS = re.compile(
    r"stablehlo\.(?:dot_general|dot|convolution)\b.*: \(tensor<([^>]+)>, tensor<([^>]+)>\)"
)
_MAIN_TENSORS = re.compile(r"func\.func public @main.*")
_TENSOR = re.compile(r"tensor<([^>]+)>")
_CALLBACK = re.compile(r"custom_call @(\w*callback\w*)")
_TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8"}
_MAX_ELEMENTS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Program:
    """A function of parameters and then of inputs in order; `inputs` describes these inputs."""

    function: Callable[..., Any]
    parameters: Any
    inputs: tuple[TensorPlace, ...]


def is_exported(request: OpenRequest) -> bool:
    """Say whether a request is for an exported program, not for a builder.

    Raises OpenFailed when it is for neither.
    """
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
    tree = exported.in_tree
    numbered = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(numbered)[0]]
    # Inputs go by the last key of their path (the program takes a map), or else by all of it.
    own_names = [str(_key(path[-1])) for path in paths]
    if len(set(own_names)) < len(own_names):
        own_names = [path_name(path[1:]) for path in paths]
    places = tuple(
        TensorPlace(
            name,
            tuple(size if isinstance(size, int) else -1 for size in aval.shape),
            aval.dtype.name,
        )
        for name, aval in zip(
            names_for(own_names, request.model.inputs), exported.in_avals, strict=True
        )
    )
    for place in places:
        if place.shape and place.shape[0] not in (-1, request.batch_size):
            raise BatchSizeUnsupported(request.batch_size, place.name, place.shape)

    def function(_: Any, *leaves: Any) -> Any:
        args, kwargs = jax.tree_util.tree_unflatten(tree, leaves)
        return exported.call(*args, **kwargs)

    return Program(function, (), places)


def built_program(request: OpenRequest, precision: str) -> Program:
    """Return the program that a builder makes, cast to `precision`. Raises OpenFailed.

    A builder returns a function of the inputs, or (apply, parameters). Where the manifest's
    weights are random it is called with `seed`.
    """
    assets = request.model.model
    arguments = dict(assets.arguments)
    if assets.weights == "random":
        arguments = {"seed": assets.seed, **arguments}
    built = build(request.model.name, assets.builder, arguments, request.builders)
    has_parameters = isinstance(built, tuple)
    if has_parameters:
        function, parameters = built
    else:
        function = wraps(built)(lambda _, *args, **kwargs: built(*args, **kwargs))
        parameters = ()
    if request.weights_path is not None:
        parameters = with_weights(request.model.name, parameters, request.weights_path)
    elif assets.weights != "random" and jax.tree_util.tree_leaves(parameters):
        raise OpenFailed(
            request.model.name,
            "the manifest's builder needs weights_path, or `weights: random` and a seed",
        )
    dtype = jnp.dtype(precision)
    places = tuple(TensorPlace(p.layer_name, p.shape, p.element_type) for p in request.model.inputs)
    names = [port.layer_name for port in request.model.inputs]
    by_name = takes_names(function, names, skipped=1 if has_parameters else 0)

    def cast_and_call(parameters: Any, *leaves: Any) -> Any:
        inputs = [_cast(leaf, dtype) for leaf in leaves]
        if by_name:
            outputs = function(parameters, **dict(zip(names, inputs, strict=True)))
        else:
            outputs = function(parameters, *inputs)
        return jax.tree_util.tree_map(lambda output: _cast(output, jnp.float32), outputs)

    parameters = jax.tree_util.tree_map(lambda parameter: _cast(parameter, dtype), parameters)
    return Program(cast_and_call, parameters, places)


def with_weights(model: str, parameters: Any, path: Path) -> Any:
    """Return a tree like `parameters` with the arrays of the file at `path`.

    The file is `.npz` or `.safetensors`; its arrays go by the parameters' dotted paths. Raises
    OpenFailed, naming the `model`, when names or shapes differ from the parameters'.
    """
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file  # an optional dependency

        arrays: Mapping[str, Any] = load_file(path)
    else:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    leaves, tree = jax.tree_util.tree_flatten_with_path(parameters)
    names = [path_name(leaf_path) for leaf_path, _ in leaves]
    if set(names) != set(arrays):
        differing = sorted(set(names) ^ set(arrays))
        raise OpenFailed(model, f"weights and model differ in {', '.join(differing[:5])}")
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if arrays[name].shape != jnp.shape(leaf):
            raise OpenFailed(
                model,
                f"weights {name} have shape {arrays[name].shape}, the model {jnp.shape(leaf)}",
            )
    return jax.tree_util.tree_unflatten(tree, [arrays[name] for name in names])


def path_name(path: Sequence[Any]) -> str:
    """Return the path to a leaf of a tree as text, such as `layers.0.kernel`."""
    return ".".join(str(_key(entry)) for entry in path)


def computed_in(lowered: Any) -> tuple[str, str]:
    """Return a lowered program's precision, and the host callback it makes ('' without one).

    The precision is the type of the operands of its products and convolutions; without any, the
    type of its inputs.
    """
    module = lowered.compiler_ir("stablehlo")
    text = module.operation.get_asm(large_elements_limit=_MAX_ELEMENTS_SHOWN)
    tensors = {tensor for pair in _OPERANDS.findall(text) for tensor in pair}
    if not tensors:
        tensors = {
            tensor for line in _MAIN_TENSORS.findall(text) for tensor in _TENSOR.findall(line)
        }
    kinds = {tensor.rpartition("x")[2] for tensor in tensors}
    types = sorted({_TYPES.get(kind, kind) for kind in kinds if kind in _TYPES or "f8" in kind})
    callback = _CALLBACK.search(text)
    return "+".join(types) or "float32", callback.group(1) if callback else ""


def _key(entry: Any) -> Any:
    """Return the key, index or attribute name of one entry of a tree's path."""
    for kind in ("key", "idx", "name"):
        if hasattr(entry, kind):
            return getattr(entry, kind)
    return entry


def _cast(value: Any, dtype: Any) -> Any:
    """Return a floating-point value cast to `dtype`, and any other value unchanged."""
    if jnp.issubdtype(jnp.result_type(value), jnp.floating):
        return jnp.asarray(value, dtype)
    return value
