"""The samples of a batch one by one, after the whole batch raised: to find which it was.

The batch keeps its size: each place of it holds the one sample that is tried. A model may take no
other size, and inline code is told what size to expect.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlscope.datasets.errors import DatasetError
from services.agent.errors import CodeRaised, PredictFailed
from services.agent.finite import output_named
from services.agent.lost import tells_of_lost_device
from services.agent.pipeline import PREDICT, PortOperators
from services.agent.predictors import Tensors
from services.agent.query import Slot
from services.agent.steps import Operator

UNUSABLE = (
    *(ValueError, TypeError, LookupError, ArithmeticError, OSError, MemoryError),
    CodeRaised,
    DatasetError,
)
"""What an operator raises when a sample is no good."""

_MOST_IN_VAIN = 3
"""Queries in a row that were tried in vain, after which it is the model and no sample of it."""

_OF_DEVICE = re.compile(
    r"out of memory|memory exhausted|resource_?exhausted|bad_alloc|not enough memory"
    r"|(failed|unable|not|cannot|could not) (to )?allocate|\bcu(da|dnn|blas)|\bxid\b"
    r"|device (is |was |has been )?(removed|not ready)|connection|timed out",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Retries:
    """How many queries were answered in part by trying samples, and whether that is of use."""

    queries: int = 0
    _in_vain: int = 0

    @property
    def are_of_use(self) -> bool:
        """Say whether another query may be tried: not where many in a row were in vain."""
        return self._in_vain < _MOST_IN_VAIN

    def note(self, *, found: bool) -> None:
        """Count a query that was tried; `found` says that some of its samples were the cause."""
        self.queries += found
        self._in_vain = 0 if found else self._in_vain + 1


def is_of_device(error: PredictFailed) -> bool:
    """Say whether a device, a server or memory failed: no sample is to blame for that."""
    if isinstance(error.__cause__, MemoryError) or tells_of_lost_device(error.reason):
        return True
    return _OF_DEVICE.search(error.reason) is not None


def culprits(
    slot: Slot, places: Iterable[int], predict: Callable[[Tensors], object]
) -> dict[int, PredictFailed]:
    """Return what predicting raises of the samples in some places of a slot, each alone.

    The slot is left as it was. Raises PredictFailed where a device failed meanwhile.
    """
    whole = [array.copy() for array in slot.arrays]
    found: dict[int, PredictFailed] = {}
    try:
        for place in places:
            for array, samples in zip(slot.arrays, whole, strict=True):
                array[:] = samples[place]
            try:
                predict(slot.inputs)
            except PredictFailed as error:
                if is_of_device(error):
                    raise
                found[place] = error
    finally:
        for array, samples in zip(slot.arrays, whole, strict=True):
            array[:] = samples
    return found


@dataclass(frozen=True, slots=True)
class Finished:
    """What operators behind a model made of samples alone, and what they raised, by place."""

    answers: dict[int, Any] = field(default_factory=dict)
    #: the operator's name, and its error
    raised: dict[int, tuple[str, Exception]] = field(default_factory=dict)


def finished_alone(
    operators: Sequence[Operator],
    outputs: Tensors,
    places: Iterable[int],
    samples: Sequence[Any],
) -> Finished | None:
    """Return what inline code makes of samples in some places of their batch, each alone.

    None where an output has not one part a sample.
    """
    found, count = Finished(), len(samples)
    for place in places:
        own = filled_with(outputs, place, count)
        if own is None:
            return None
        value, name = for_code(own), ""
        try:
            for operator in operators:
                name = operator.name
                more = [[samples[place]] * count] if operator.wants_samples else []
                value = operator.apply(value, *more)
            found.answers[place] = value[place]
        except UNUSABLE as error:
            found.raised[place] = name, error
    return found


def stepped_alone(
    port: PortOperators,
    outputs: Mapping[str, Any],
    places: Iterable[int],
    sample: Callable[[int], Any],
) -> Finished:
    """Return what an output's steps make of samples in some places, each a batch of its own.

    `outputs` have one part a sample; `sample` reads the one in a place.
    """
    found = Finished()
    for place in places:
        own = {name: values[place : place + 1] for name, values in outputs.items()}
        value, name = own[port.name], PREDICT
        try:
            for operator in port.steps:
                name = operator.name
                more = [own[other] for other in operator.others]
                if operator.wants_samples:
                    more.append([sample(place)])
                value = operator.apply(value, *more)
            found.answers[place] = value[0]
        except UNUSABLE as error:
            found.raised[place] = name, error
    return found


def for_code(outputs: Tensors) -> Any:
    """Return outputs as inline code takes them: an array, or of several a map by name."""
    return outputs if len(outputs) > 1 else next(iter(outputs.values()))


def filled_with(outputs: Tensors, place: int, count: int) -> Tensors | None:
    """Return the outputs of a batch of `count` whose samples all were the one in a place.

    None where an output has not one part a sample. `1.boxes` is the second sample's own.
    """
    filled = {}
    for name, values in outputs.items():
        number, _, rest = name.partition(".")
        if rest and number.isdecimal():
            own = outputs.get(f"{place}.{rest}")
        else:
            is_parted = values.ndim > 0 and len(values) == count
            own = np.repeat(values[place : place + 1], count, axis=0) if is_parted else None
        if own is None:
            return None
        filled[name] = own
    return filled


def parted(outputs: Tensors, names: Set[str], count: int) -> dict[str, Any] | None:
    """Return outputs by name; None where one is missing or has not one part a sample."""
    try:
        values = {name: output_named(outputs, name) for name in names}
        return None if any(len(value) != count for value in values.values()) else values
    except (LookupError, TypeError):
        return None
