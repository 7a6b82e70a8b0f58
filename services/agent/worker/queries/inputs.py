"""The inputs of an opened model at a batch size: those that samples fill, and constants."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlscope.manifests.ports import is_constant
from schemas.manifest import DatasetManifest, ModelManifest, Port
from services.agent.errors import OpenFailed
from services.agent.predictors import TensorPlace
from services.agent.predictors.page_locking import page_aligned
from services.agent.steps import operator_of
from services.agent.worker.answers.outputs import check_described
from services.agent.worker.queries.pipeline import Pipeline, PortOperators
from services.agent.worker.queries.query import Slot, Tensor


@dataclass(frozen=True, slots=True)
class Inputs:
    """A model's inputs.

    `places` are all of them, with the batch dimension; `supplied` those that samples fill, with
    their names in samples and without the batch dimension; `filled` their names in the model.
    """

    places: tuple[TensorPlace, ...]
    filled: tuple[str, ...]
    supplied: tuple[TensorPlace, ...]
    constants: Mapping[str, float]

    def slot(self) -> Slot:
        """Return input arrays for one batch, each on pages of its own: zeros, and the constants."""
        places = self.places_in_slot
        return self.slot_of([page_aligned(place.shape, place.element_type) for place in places])

    def slot_of(self, arrays: Sequence[Tensor], number: int = -1) -> Slot:
        """Return the slot of `arrays` that lie in the arena's slot with a `number`.

        They are zeros, in the order of `places_in_slot`; constants are filled in.
        """
        pairs = zip(self.places_in_slot, arrays, strict=True)
        by_name = {place.name: array for place, array in pairs}
        for name, value in self.constants.items():
            by_name[name][...] = value
        return Slot({place.name: by_name[place.name] for place in self.places}, self.filled, number)

    @property
    def places_in_slot(self) -> Sequence[TensorPlace]:
        """All inputs, those that samples fill first."""
        return sorted(self.places, key=lambda place: place.name not in self.filled)

    @property
    def batch_bytes(self) -> int:
        """The bytes of the arrays of one slot."""
        return sum(
            math.prod(place.shape) * np.dtype(place.element_type).itemsize for place in self.places
        )

    def named(self, pipeline: Pipeline) -> Pipeline:
        """Return a pipeline with the names of inputs in samples, where the manifest has none."""
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
    """Return the inputs of a `model` at a `batch_size`, in the manifest's order.

    Dimensions that the `opened` inputs leave free are those of the manifest, then those of a
    synthetic `dataset`. Raises OpenFailed for a dimension that stays free, and for an input that
    differs from the manifest.
    """
    if len(opened) != len(model.inputs):
        raise OpenFailed(
            model.name, f"has {len(opened)} inputs, its manifest describes {len(model.inputs)}"
        )
    places, filled, supplied, constants = [], [], [], {}
    by_name = {place.name: place for place in opened}
    if all(port.layer_name in by_name for port in model.inputs):
        opened = [by_name[port.layer_name] for port in model.inputs]
    for port, place in zip(model.inputs, opened, strict=True):
        check_described(model.name, "input", place, port)
        declared = _with_declared_shape(place, port)
        if is_constant(port):
            constants[place.name] = float(operator_of(port.steps[0], lambda _: ()).apply(None))
            shape = tuple(batch_size if size < 0 else size for size in declared.shape)
            places.append(replace(declared, shape=shape))
            continue
        name = port.layer_name or place.name
        sample_shape = _sample_shape(model.name, declared, name, dataset)
        supplied.append(replace(declared, name=name, shape=sample_shape))
        filled.append(place.name)
        places.append(replace(declared, shape=(batch_size, *sample_shape)))
    return Inputs(tuple(places), tuple(filled), tuple(supplied), constants)


def received_sample(body: Any, ports: Sequence[PortOperators], arrays: Sequence[Tensor]) -> Any:
    """Return a sample that came with a query, as the pipeline takes it. Raises ValueError.

    `body` is for each of the `ports`: an input with steps takes it as it is, one without as the
    bytes of a tensor like those in its array of `arrays`. With several inputs it may be a map by
    name; otherwise all inputs take the same.
    """
    values = {}
    for port, array in zip(ports, arrays, strict=True):
        try:
            value = body[port.name] if isinstance(body, dict) else body
        except KeyError as error:
            raise ValueError(f"a sample has no input {error}") from error
        if not port.steps:
            value = np.frombuffer(value, array.dtype).reshape(array.shape[1:])
        values[port.name] = value
    return values if len(ports) > 1 else values[ports[0].name]


def _with_declared_shape(place: TensorPlace, port: Port) -> TensorPlace:
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
    synthetic = dataset.synthetic
    if synthetic is not None and (declared := synthetic.inputs.get(name, synthetic).shape):
        return declared
    fault = f"free dimensions {list(shape)}" if place.shape else "no known shape"
    raise OpenFailed(model, f"input {place.name} has {fault}; give them in the manifest")
