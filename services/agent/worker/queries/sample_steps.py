"""Prepares one sample: reads it, applies the steps before the model, puts it into its slot."""

from collections.abc import Callable, Sequence
from typing import Any

from services.agent.errors import SAMPLE_ERRORS
from services.agent.steps import Operator
from services.agent.worker.queries.pipeline import Pipeline
from services.agent.worker.queries.query import Tensor, put_sample

Apply = Callable[[int, Operator, tuple[Any, ...]], Any]
"""Returns an operator's result for its arguments; the number is its place among all steps."""


def require_within(sample: Tensor, limits: tuple[int, int] | None, name: str) -> None:
    """Require that the numbers of a `sample` are from the first of `limits` to below the second.

    Without limits all are right. `name` is the input's. Raises ValueError.
    """
    if limits is None or not sample.size:
        return
    (low, high), place = limits, f"input {name}" if name else "the input"
    for number in (sample.min().item(), sample.max().item()):
        if not low <= number < high:
            raise ValueError(f"{place} has {number}; its range is {low} to {high - 1}")


class SampleSteps:
    """The steps before a model, as the worker and its preparing processes carry them out."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._ports, self._codes = pipeline.before, pipeline.code_before
        steps = (step for port in pipeline.before for step in port.steps)
        #: the names of its operators in their order
        self.names = tuple(operator.name for operator in (*pipeline.code_before, *steps))
        #: how many inputs a sample fills
        self.inputs = len(pipeline.before)

    def prepare(
        self, read: Callable[[], Any], arrays: Sequence[Tensor], position: int, apply: Apply
    ) -> tuple[str, Exception] | None:
        """Put what the steps make of a sample into a `position` of a batch.

        `read` returns the sample, behind the steps that a device has carried out; `arrays` are
        the slot's, `apply` carries out one operator.
        Returns the name of what failed and its error; None when all went well.
        """
        name, number = "read", 0
        try:
            sample = read()
            name = "batch"
            for operator in self._codes:
                name = operator.name
                sample = apply(number, operator, (sample,))
                number += 1
            for port, array in zip(self._ports, arrays, strict=True):
                value = sample[port.name] if isinstance(sample, dict) else sample
                skipped = port.device_decoding.steps if port.device_decoding else 0
                number += skipped
                for operator in port.steps[skipped:]:
                    name = operator.name
                    place = (array[position],) if operator.takes_place else ()
                    value = apply(number, operator, (value, *place))
                    number += 1
                name = "batch"
                put_sample(array, position, value)
                require_within(array[position], port.limits, port.name)
        except SAMPLE_ERRORS as error:
            return name, error
        return None
