"""Batches of samples prepared ahead, kept by a session for the runs that need them.

A batch is named by its samples. A slot whose batch is not needed any more takes another one, so
that what a predictor bound stays bound.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from mlscope.load.parameters import MAX_QUERIES
from mlscope.quantities import shown
from services.agent.errors import CodeRaised
from services.agent.link.allowances import Allowances, ahead_limit_bytes
from services.agent.machine.quotas import available_memory_bytes
from services.agent.predictors import (
    MAX_BOUND,
    ArrayBinder,
    OverlappingPredictor,
    Predictor,
    Tensors,
)
from services.agent.worker.preparation.shares import MOST_IN_FLIGHT
from services.agent.worker.queries.inputs import Inputs
from services.agent.worker.queries.query import Slot, bytes_of

BatchName = tuple[int, ...]
"""The samples of a batch, by index into the dataset."""


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A batch in its slot."""

    slot: Slot
    #: of the slot's bytes; None: they are not the batch's any more, prepare it again
    checksum: int | None
    #: why samples could not be prepared, by place in the batch
    unusable: Mapping[int, str]
    code_error: CodeRaised | None = None

    @property
    def is_changed(self) -> bool:
        """Whether the slot's bytes are others than when it was filled."""
        return self.checksum != checksum_of(self.slot.inputs)


class PreparedBatches:
    """The prepared batches of one session, in at most `limit_bytes` and `limit_batches` slots."""

    def __init__(
        self,
        make_slot: Callable[[], Slot],
        batch_bytes: int,
        limit_bytes: int,
        limit_batches: int,
        kept_bytes: Callable[[Tensors], int] | None = None,
    ) -> None:
        """Keep batches in slots of `make_slot`; each takes `batch_bytes`.

        `kept_bytes` returns what a predictor keeps for the outputs of a batch; None: that is in
        `batch_bytes`.
        """
        self._make_slot, self.batch_bytes = make_slot, batch_bytes
        self._limit_bytes, self._limit_batches = limit_bytes, limit_batches
        self._kept_bytes = kept_bytes
        self._batches: dict[BatchName, PreparedBatch] = {}
        self._slots = 0
        self._needed: set[BatchName] = set()
        #: why none may be used any more; '' while they may
        self.refusal = ""

    def release(self) -> None:
        """End the need of all batches: they stay until others need their slots."""
        self._needed.clear()

    def need(self, names: Iterable[BatchName]) -> str:
        """Keep room for batches until `release`; return why there is none, '' where there is."""
        needed = self._needed.union(names)
        count, needed_bytes = len(needed), len(needed) * self.batch_bytes
        if self.refusal:
            return self.refusal
        if count > self._limit_batches:
            return f"{count} batches are too many: the framework binds {self._limit_batches}"
        if needed_bytes > self._limit_bytes:
            allowed = shown(self._limit_bytes, "By")
            return (
                f"{count} prepared batches need {shown(needed_bytes, 'By')} of memory,"
                f" {allowed} are allowed (setting MLSCOPE_AHEAD_BYTES)"
            )
        self._needed = needed
        return ""

    def count_outputs(self, outputs: Tensors) -> str:
        """Count the `outputs` of the first batch that a predictor keeps memory for.

        Returns why the needed batches have no room with theirs, '' where they have.
        """
        if self._kept_bytes is None:
            return ""
        self.batch_bytes += self._kept_bytes(outputs)
        self._kept_bytes = None
        return self.need(())

    def get(self, name: BatchName) -> PreparedBatch | None:
        """Return a prepared batch; None where it is not prepared."""
        return self._batches.get(name)

    def take_slot(self, name: BatchName) -> Slot:
        """Return the slot to prepare a needed batch in: its own, a new one, or one not needed."""
        batch = self._batches.pop(name, None)
        if batch is not None:
            return batch.slot
        self._slots += 1
        if (
            self._slots <= self._limit_batches
            and self._slots * self.batch_bytes <= self._limit_bytes
        ):
            return self._make_slot()
        self._slots -= 1
        unneeded = next((stored for stored in self._batches if stored not in self._needed), None)
        return self._make_slot() if unneeded is None else self._batches.pop(unneeded).slot

    def keep(self, name: BatchName, batch: PreparedBatch) -> None:
        """Keep a batch, also for later runs."""
        self._batches[name] = batch

    def refuse(self, reason: str) -> None:
        """Drop all batches and their slots, and prepare no more of them, for a `reason`."""
        self.refusal = reason
        self._batches.clear()


def kept_output_bytes(predictor: Predictor, outputs: Tensors) -> int:
    """Return the memory that a `predictor` keeps for the `outputs` of each batch that it binds.

    One whose calls overlap has them twice. PyTorch's page-locked blocks are powers of two.
    """
    if not isinstance(predictor, ArrayBinder):
        return 0
    if not isinstance(predictor, OverlappingPredictor):
        return bytes_of(outputs)
    blocks = (1 << max(array.nbytes - 1, 0).bit_length() for array in outputs.values())
    return 2 * sum(blocks)


def no_batches() -> PreparedBatches:
    """Return room for no batch."""
    return PreparedBatches(lambda: Slot({}), batch_bytes=0, limit_bytes=0, limit_batches=0)


def checksum_of(tensors: Tensors) -> int:
    """Return a checksum of the bytes of tensors."""
    checksum = 0
    for array in tensors.values():
        checksum = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view("uint8").data, checksum)
    return checksum


def room_for_batches(
    inputs: Inputs, predictor: Predictor, output_bytes: int | None, allowances: Allowances
) -> PreparedBatches:
    """Return the room for prepared batches of a model's `inputs`, within the `allowances`.

    A `predictor` that binds arrays keeps `output_bytes` of outputs with each batch; None: unknown.
    """
    is_binding = isinstance(predictor, ArrayBinder)
    batch_bytes = inputs.batch_bytes + (output_bytes or 0)
    # The slots of streamed runs are bound, too.
    limit_batches = MAX_BOUND - MOST_IN_FLIGHT if is_binding else MAX_QUERIES
    limit_bytes = ahead_limit_bytes(allowances.ahead_bytes, available_memory_bytes())
    kept_bytes = partial(kept_output_bytes, predictor) if output_bytes is None else None
    return PreparedBatches(inputs.slot, batch_bytes, limit_bytes, limit_batches, kept_bytes)
