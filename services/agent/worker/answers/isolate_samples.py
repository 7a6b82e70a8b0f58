"""Runs the samples of a failed batch one by one, to find which of them cause the failure.

The batch keeps its size: each of its places holds the one sample that is tried. A model may accept
no other size, and inline code is told which size to expect.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from services.agent.errors import SAMPLE_ERRORS, PredictFailed
from services.agent.predictors import Tensors
from services.agent.steps import Operator
from services.agent.worker.answers.non_finite import output_named
from services.agent.worker.device_loss import is_device_loss
from services.agent.worker.queries.pipeline import PREDICT, PortOperators
from services.agent.worker.queries.query import Slot

_MOST_IN_VAIN = 3
"""After this number of queries in a row isolated without result, the model is the cause."""

_MEMORY = (
    r"out of memory|memory exhausted|resource_?exhausted|bad_alloc|not enough memory"
    r"|(failed|unable|not|cannot|could not) (to )?allocate"
)
_MEMORY_FAILURE = re.compile(_MEMORY, re.IGNORECASE)
_DEVICE_FAILURE = re.compile(
    rf"{_MEMORY}|\bcu(da|dnn|blas)|\bxid\b"
    r"|device (is |was |has been )?(removed|not ready)|connection|timed out",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Retries:
    """How many queries were answered in part by isolating samples, and whether that helps."""

    queries: int = 0
    _in_vain: int = 0

    @property
    def are_useful(self) -> bool:
        """Whether another query may be isolated: not where many in a row were so without result."""
        return self._in_vain < _MOST_IN_VAIN

    def note(self, *, has_cause: bool) -> None:
        """Count an isolated query; `has_cause`: whether some of its samples were the cause."""
        self.queries += has_cause
        self._in_vain = 0 if has_cause else self._in_vain + 1


def is_device_failure(error: PredictFailed) -> bool:
    """Return whether a device, a server or memory failed, and no sample is the cause."""
    if isinstance(error.__cause__, MemoryError) or is_device_loss(error.reason):
        return True
    return _DEVICE_FAILURE.search(error.reason) is not None


def is_memory_failure(reason: str) -> bool:
    """Return whether a predict call failed for this `reason` because memory was exhausted."""
    return _MEMORY_FAILURE.search(reason) is not None


def failing_samples(
    slot: Slot, places: Iterable[int], predict: Callable[[Tensors], object]
) -> dict[int, PredictFailed]:
    """Return the errors of samples that `predict` fails for, each alone in its batch, by place.

    `places` are those of the samples in the `slot`, which is restored afterwards. Raises
    PredictFailed where a device failed.
    """
    batches = [array.copy() for array in slot.arrays]
    errors: dict[int, PredictFailed] = {}
    try:
        for place in places:
            for array, batch in zip(slot.arrays, batches, strict=True):
                array[:] = batch[place]
            try:
                predict(slot.inputs)
            except PredictFailed as error:
                if is_device_failure(error):
                    raise
                errors[place] = error
    finally:
        for array, batch in zip(slot.arrays, batches, strict=True):
            array[:] = batch
    return errors


@dataclass(frozen=True, slots=True)
class IsolatedAnswers:
    """The answers of samples post-processed alone, and the errors, by place in the batch."""

    answers: dict[int, Any] = field(default_factory=dict)
    #: the operator's name, and its error
    errors: dict[int, tuple[str, Exception]] = field(default_factory=dict)


def finish_code_by_sample(
    operators: Sequence[Operator],
    outputs: Tensors,
    places: Iterable[int],
    samples: Sequence[Any],
) -> IsolatedAnswers | None:
    """Return the answers of inline code, its `operators`, for each sample in `places` alone.

    `outputs` are those of the whole batch of `samples`. None where an output can't be split by
    sample.
    """
    isolated, count = IsolatedAnswers(), len(samples)
    for place in places:
        repeated = repeated_sample(outputs, place, count)
        if repeated is None:
            return None
        value, name = code_argument(repeated), ""
        try:
            for operator in operators:
                name = operator.name
                extra = [[samples[place]] * count] if operator.wants_samples else []
                value = operator.apply(value, *extra)
            isolated.answers[place] = value[place]
        except SAMPLE_ERRORS as error:
            isolated.errors[place] = name, error
    return isolated


def finish_steps_by_sample(
    port: PortOperators,
    outputs: Mapping[str, Any],
    places: Iterable[int],
    read_sample: Callable[[int], Any],
) -> IsolatedAnswers:
    """Return the answers of an output's steps, those of `port`, for each sample in `places` alone.

    Each is a batch of its own. `outputs` can be split by sample; `read_sample` reads the sample of
    a place.
    """
    isolated = IsolatedAnswers()
    for place in places:
        parts = {name: values[place : place + 1] for name, values in outputs.items()}
        value, name = parts[port.name], PREDICT
        try:
            for operator in port.steps:
                name = operator.name
                extra = [parts[output] for output in operator.extra_outputs]
                if operator.wants_samples:
                    extra.append([read_sample(place)])
                value = operator.apply(value, *extra)
            isolated.answers[place] = value[0]
        except SAMPLE_ERRORS as error:
            isolated.errors[place] = name, error
    return isolated


def code_argument(outputs: Tensors) -> Any:
    """Return outputs as inline code takes them: one array, or a map by name of several."""
    return outputs if len(outputs) > 1 else next(iter(outputs.values()))


def repeated_sample(outputs: Tensors, place: int, count: int) -> Tensors | None:
    """Return the outputs of a batch of `count` times the sample that is in a `place` of `outputs`.

    None where an output can't be split by sample. `1.boxes` is the output of the second sample.
    """
    repeated = {}
    for name, values in outputs.items():
        number, _, base_name = name.partition(".")
        if base_name and number.isdecimal():
            part = outputs.get(f"{place}.{base_name}")
        else:
            is_split = values.ndim > 0 and len(values) == count
            part = np.repeat(values[place : place + 1], count, axis=0) if is_split else None
        if part is None:
            return None
        repeated[name] = part
    return repeated


def outputs_by_sample(outputs: Tensors, names: Set[str], count: int) -> dict[str, Any] | None:
    """Return the `outputs` of these `names`; None where one does not have `count` parts."""
    try:
        values = {name: output_named(outputs, name) for name in names}
        return None if any(len(value) != count for value in values.values()) else values
    except (LookupError, TypeError):
        return None
