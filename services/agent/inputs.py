"""The inputs of an opened model at a batch size: which samples fill, and which are constant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from schemas.manifest import DatasetManifest, ModelManifest, Port
from services.agent.errors import OpenFailed
from services.agent.outputs import check_described
from services.agent.pipeline import Pipeline, PortOperators, is_constant
from services.agent.predictors import TensorPlace
from services.agent.query import Slot, Tensor
from services.agent.steps import operator_of


@dataclass(frozen=True, slots=True)
class Inputs:
    """A model's inputs.

    `places` are all of them, their shapes as arrays have them; `supplied` those that samples
    fill: their names in samples, and their shapes without batch.
    """

    places: tuple[TensorPlace, ...]
    filled: tuple[str, ...]
    supplied: tuple[TensorPlace, ...]
    constants: Mapping[str, float]

    def slot(self) -> Slot:
        """Return room for one batch, with zeros in it and the constants in their places."""
        arrays = {each.name: np.zeros(each.shape, each.element_type) for each in self.places}
        for name, value in self.constants.items():
            arrays[name][...] = value
        return Slot(arrays, self.filled)

    def named(self, pipeline: Pipeline) -> Pipeline:
        """Return the pipeline with the names that samples have, where the manifest has none."""
        pairs = zip(pipeline.before, self.supplied, strict=True)
        return replace(
            pipeline, before=tuple(replace(port, name=place.name) for port, place in pairs)
        )


def inputs_of(
    model: ModelManifest,
    opened: Sequence[TensorPlace],
    dataset: DatasetManifest,
    batch_size: int,
) -> Inputs:
    """Return the inputs of an opened model, in the manifest's order.

    What the model leaves free the manifest's shape fills, then a synthetic dataset's. Raises
    OpenFailed for a dimension that stays free, and where the manifest says something else of an
    input than the model has.
    """
    if len(opened) != len(model.inputs):
        raise OpenFailed(
            model.name, f"has {len(opened)} inputs, its manifest describes {len(model.inputs)}"
        )
    places, filled, supplied, constants = [], [], [], {}
    for port, place in zip(model.inputs, _in_order(model, opened), strict=True):
        check_described(model.name, "input", place, port)
        known = _with_shape(place, port)
        if is_constant(port):
            constants[place.name] = float(operator_of(port.steps[0], _no_labels).apply(None))
            shape = tuple(batch_size if size < 0 else size for size in known.shape)
            places.append(replace(known, shape=shape))
            continue
        name = port.layer_name or place.name
        sample = _sample_shape(model.name, known, name, dataset)
        supplied.append(replace(known, name=name, shape=sample))
        filled.append(place.name)
        places.append(replace(known, shape=(batch_size, *sample)))
    return Inputs(tuple(places), tuple(filled), tuple(supplied), constants)


def received(body: Any, ports: Sequence[PortOperators], arrays: Sequence[Tensor]) -> Any:
    """Return a sample that came with a query: tensors' bytes, and for steps what it is.

    Of several inputs it may be a map by name; else each takes the same. Raises ValueError.
    """
    try:
        if len(ports) == 1:
            alone = body[ports[0].name] if isinstance(body, dict) else body
            return _part(alone, ports[0], arrays[0])
        return {
            port.name: _part(body[port.name] if isinstance(body, dict) else body, port, array)
            for port, array in zip(ports, arrays, strict=True)
        }
    except KeyError as error:
        raise ValueError(f"a sample has no input {error}") from error


def _part(body: Any, port: PortOperators, array: Tensor) -> Any:
    if port.steps:
        return body
    return np.frombuffer(body, array.dtype).reshape(array.shape[1:])


def _in_order(model: ModelManifest, opened: Sequence[TensorPlace]) -> Sequence[TensorPlace]:
    """Return the places in the order of the manifest's inputs: by name, or as they are."""
    by_name = {place.name: place for place in opened}
    if all(port.layer_name in by_name for port in model.inputs):
        return [by_name[port.layer_name] for port in model.inputs]
    return opened


def _with_shape(place: TensorPlace, port: Port) -> TensorPlace:
    if not place.shape:
        return replace(place, shape=port.shape)
    if not port.shape:
        return place
    pairs = zip(place.shape, port.shape, strict=True)
    return replace(place, shape=tuple(b if a == -1 else a for a, b in pairs))


def _sample_shape(
    model: str, place: TensorPlace, name: str, dataset: DatasetManifest
) -> tuple[int, ...]:
    shape = place.shape[1:]
    if place.shape and -1 not in shape:
        return shape
    made = dataset.synthetic
    if made is not None and (said := made.inputs.get(name, made).shape):
        return said
    what = f"free dimensions {list(shape)}" if place.shape else "no known shape"
    raise OpenFailed(model, f"input {place.name} has {what}; give them in the manifest")


def _no_labels(_: str) -> tuple[str, ...]:
    return ()
