"""One query on its way through an agent: its samples' room, its stamps, and what failed of it.

A sample that has no answer fails alone: its query is answered in part as long as one has some.
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
_MOST_REASON_CHARACTERS = 2000
_MOST_ERROR_CHARACTERS = 8000
"""Of one reason, and of a query's together: 32 samples may each have a sentence."""


class Slot:
    """Room for one batch: the model's input arrays, bound once by the predictor.

    `arrays` are those that samples fill, in the order of the pipeline's inputs.
    """

    def __init__(self, inputs: Tensors, filled: Sequence[str] = ()) -> None:
        self.inputs = inputs
        self.arrays = tuple(inputs[name] for name in filled or inputs)

    def lend(self, places: Set[int], count: int) -> None:
        """Put a good sample of the first `count` in the places of bad ones.

        Zeros could be what a model has no answer to.
        """
        good = next(each for each in range(count) if each not in places)
        for array in self.arrays:
            for place in places:
                array[place] = array[good]


def put(array: Tensor, position: int, value: Any) -> None:
    """Put a sample into its place of a batch. Raises ValueError where it does not fit.

    Numbers may not lose their fraction or imaginary part.
    """
    value = np.asarray(value)
    if value.shape != array.shape[1:]:
        raise ValueError(f"a sample has shape {value.shape}, the model takes {array.shape[1:]}")
    if value.dtype != array.dtype and _falls(value.dtype, array.dtype):
        raise ValueError(
            f"a sample is {value.dtype}, the model takes {array.dtype}: "
            "cast it, by a step `cast` or in its code"
        )
    array[position] = value


def _falls(found: np.dtype[Any], taken: np.dtype[Any]) -> bool:
    """Tell whether numbers would lose their fraction or imaginary part: c > f > i, u > b."""
    return _KINDS.get(found.kind, 0) > _KINDS.get(taken.kind, 3)


@dataclass(slots=True)
class Query:
    """One query on its way. Stamps are CLOCK_MONOTONIC nanoseconds."""

    index: int
    samples: Sequence[int]
    issued_ns: int
    due_ns: int = ABSENT
    block: int = 0
    #: samples that came with the query, instead of those of the dataset
    payload: Sequence[Any] | None = None
    slot: Slot | None = None
    first_span: int = 0
    started_ns: int = 0
    ended_ns: int = 0
    outputs: Tensors | None = None
    #: why it, or a sample of it, has no answer
    errors: list[str] = field(default_factory=list)
    #: by place in the batch, what was wrong with a sample that could not be prepared
    unfit: dict[int, str] = field(default_factory=dict)
    #: places in the batch of samples without an answer
    failed: frozenset[int] = frozenset()
    #: what inline code raised over it last
    raised: CodeRaised | None = None

    def fail(self, reason: str) -> None:
        """Say why no sample of it has an answer."""
        self.errors.append(reason)
        self.failed = frozenset(range(len(self.samples)))

    def fail_samples(self, reasons: Mapping[int, str]) -> None:
        """Say by place in the batch why samples have no answer; the others have theirs."""
        self.errors += [reasons[position] for position in sorted(reasons)]
        self.failed |= frozenset(reasons)

    @property
    def good(self) -> list[int]:
        """Return the places in the batch of samples that have not failed."""
        return [place for place in range(len(self.samples)) if place not in self.failed]

    @property
    def is_answered(self) -> bool:
        """Say whether some of its samples have an answer."""
        return len(self.failed) < len(self.samples)

    @property
    def status(self) -> int:
        """Return what its row says: answered, be it in part, or failed."""
        return ANSWERED if self.is_answered else FAILED

    @property
    def failed_samples(self) -> int:
        """Return how many samples have no answer, of a query that was answered in part."""
        return len(self.failed) if self.is_answered else 0

    @property
    def error(self) -> str:
        """Return its reasons in one text: as many as fit, and how many do not."""
        text = ""
        for place, whole in enumerate(self.errors):
            reason = f"{'; ' if place else ''}{whole[:_MOST_REASON_CHARACTERS]}"
            if len(text) + len(reason) > _MOST_ERROR_CHARACTERS:
                return f"{text}; {len(self.errors) - place} more failed"
            text += reason
        return text

    @property
    def service_ns(self) -> int:
        """Return how long the agent itself worked on it."""
        return self.ended_ns - self.started_ns

    def row(self) -> QueryRow:
        """Return what is recorded of it."""
        stamps = (self.due_ns, self.issued_ns, self.started_ns, self.ended_ns)
        size, told = len(self.samples), (self.service_ns, self.status, self.error)
        return (self.index, self.block, size, *stamps, *told)
