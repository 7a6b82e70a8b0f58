"""One query on its way through an agent: its input arrays, its stamps, and its failures.

A sample without an answer fails alone: its query is answered in part as long as another has one.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from mlscope.tracing.batches import ABSENT, ANSWERED, FAILED, QueryRow
from services.agent.errors import CodeRaised
from services.agent.predictors import Tensors

Tensor = npt.NDArray[np.generic]

_KINDS = MappingProxyType({"b": 0, "i": 1, "u": 1, "f": 2, "c": 3})
"""Kinds of numbers: those of a higher rank lose their fraction or imaginary part in a lower one."""
_MOST_REASON_CHARACTERS = 2000
_MOST_ERROR_CHARACTERS = 8000
"""Of all reasons of a query together: 32 samples may each have a sentence."""


class Slot:
    """The model's input arrays for one batch, its `inputs`, bound once by the predictor.

    `arrays` are those that samples fill, the `filled` ones, in the order of the pipeline's inputs.
    `number` is that of the slot in the arena of preparing processes; -1: it lies in none.
    """

    def __init__(self, inputs: Tensors, filled: Sequence[str] = (), number: int = -1) -> None:
        self.inputs, self.number = inputs, number
        self.arrays = tuple(inputs[name] for name in filled or inputs)

    def copy_sample(self, place: int, other: "Slot", other_place: int) -> None:
        """Copy the sample at `other_place` of an `other` slot to a `place` of this one."""
        for array, source in zip(self.arrays, other.arrays, strict=True):
            array[place] = source[other_place]

    def replace_samples(self, bad_places: Set[int], count: int) -> None:
        """Copy a good one of the first `count` samples to the places of bad ones.

        A model may have no answer to zeros.
        """
        good_place = next(place for place in range(count) if place not in bad_places)
        for array in self.arrays:
            for place in bad_places:
                array[place] = array[good_place]


def bytes_of(tensors: Tensors) -> int:
    """Return the bytes of tensors."""
    return sum(array.nbytes for array in tensors.values())


def put_sample(array: Tensor, position: int, value: Any) -> None:
    """Put a sample, the `value`, into a position of a batch `array`. Raises ValueError.

    Its shape must fit, and its numbers may not lose their fraction or imaginary part. A value that
    lies there already, as its last step wrote it there, stays.
    """
    value, place = np.asarray(value), array[position]
    layout = (value.shape, value.dtype, value.strides)
    is_alike = layout == (place.shape, place.dtype, place.strides)
    if is_alike and value.ctypes.data == place.ctypes.data:
        return
    if value.shape != array.shape[1:]:
        raise ValueError(f"a sample has shape {value.shape}, the model takes {array.shape[1:]}")
    kind, array_kind = value.dtype.kind, array.dtype.kind
    if value.dtype != array.dtype and _KINDS.get(kind, 0) > _KINDS.get(array_kind, 3):
        raise ValueError(
            f"a sample is {value.dtype}, the model takes {array.dtype}: "
            "cast it, by a step `cast` or in its code"
        )
    array[position] = value


@dataclass(slots=True)
class Query:
    """One query on its way. Stamps are CLOCK_MONOTONIC nanoseconds."""

    index: int
    samples: Sequence[int]
    issued_ns: int
    #: ABSENT in a closed loop, and in a remote load, whose issuer records when queries are due
    due_ns: int = ABSENT
    block: int = 0
    #: samples that came with the query, in place of the dataset's
    payload: Sequence[Any] | None = None
    slot: Slot | None = None
    first_span: int = 0
    started_ns: int = 0
    ended_ns: int = 0
    outputs: Tensors | None = None
    #: why it, or a sample of it, has no answer
    errors: list[str] = field(default_factory=list)
    #: by place in the batch, why a sample could not be prepared
    unusable: dict[int, str] = field(default_factory=dict)
    #: of the outputs of a batch that was prepared ahead; None: too large to compare, or none
    outputs_checksum: int | None = None
    #: places in the batch of samples without an answer
    failed: frozenset[int] = frozenset()
    #: the last error of inline code for it
    code_error: CodeRaised | None = None

    def fail(self, reason: str) -> None:
        """Fail all its samples, for a reason."""
        self.errors.append(reason)
        self.failed = frozenset(range(len(self.samples)))

    def fail_samples(self, reasons: Mapping[int, str]) -> None:
        """Fail samples, by place in the batch with a reason; the others have their answers."""
        self.errors += [reasons[position] for position in sorted(reasons)]
        self.failed |= frozenset(reasons)

    def copy_failures(self, alike: "Query") -> None:
        """Fail the samples of an `alike` query of the same batch, for its reasons."""
        self.errors += alike.errors
        self.failed |= alike.failed
        self.code_error = self.code_error or alike.code_error

    @property
    def good_places(self) -> list[int]:
        """The places in the batch of samples that have not failed."""
        return [place for place in range(len(self.samples)) if place not in self.failed]

    @property
    def is_answered(self) -> bool:
        """Whether some of its samples have an answer."""
        return len(self.failed) < len(self.samples)

    @property
    def status(self) -> int:
        """The status in its row: answered, also in part, or failed."""
        return ANSWERED if self.is_answered else FAILED

    @property
    def failed_samples(self) -> int:
        """How many samples have no answer, of a query that was answered in part."""
        return len(self.failed) if self.is_answered else 0

    @property
    def error(self) -> str:
        """Its reasons in one text: as many as fit, and the number of the others."""
        text = ""
        for index, error in enumerate(self.errors):
            reason = f"{'; ' if index else ''}{error[:_MOST_REASON_CHARACTERS]}"
            if len(text) + len(reason) > _MOST_ERROR_CHARACTERS:
                return f"{text}; {len(self.errors) - index} more failed"
            text += reason
        return text

    @property
    def service_ns(self) -> int:
        """How long the agent itself worked on it."""
        return self.ended_ns - self.started_ns

    def row(self) -> QueryRow:
        """Return its row."""
        return (
            self.index,
            self.block,
            len(self.samples),
            self.due_ns,
            self.issued_ns,
            self.started_ns,
            self.ended_ns,
            self.service_ns,
            self.status,
            self.error,
        )
