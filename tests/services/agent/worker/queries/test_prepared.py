"""Room for prepared batches: kept while there is room, and slots taken over where there is none."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.predictors import Tensors
from services.agent.worker.queries.prepared import (
    BatchName,
    PreparedBatch,
    PreparedBatches,
    checksum_of,
    kept_output_bytes,
)
from services.agent.worker.queries.query import Slot

BATCH_BYTES = 8


class Room:
    """Prepared batches of one number, and the slots that were made for them."""

    def __init__(self, limit_bytes: int, limit_batches: int = 100) -> None:
        self.made: list[Slot] = []
        self.batches = PreparedBatches(self.make, BATCH_BYTES, limit_bytes, limit_batches)

    def make(self) -> Slot:
        """Make a slot."""
        self.made.append(Slot({"x": np.zeros((1, 1), np.float64)}))
        return self.made[-1]

    def prepare(self, *names: BatchName) -> str:
        """Prepare those of the batches that are not yet; return why there is no room."""
        refusal = self.batches.need(names)
        for name in names if not refusal else ():
            if self.batches.get(name) is None:
                slot = self.batches.take_slot(name)
                slot.arrays[0][0] = sum(name)
                batch = PreparedBatch(slot, checksum_of(slot.inputs), unusable={})
                self.batches.keep(name, batch)
        return refusal


def test_batches_stay_while_there_is_room() -> None:
    room = Room(3 * BATCH_BYTES)
    assert room.prepare((0,), (1,)) == ""
    room.batches.release()
    assert room.prepare((2,)) == ""
    assert all(room.batches.get((sample,)) for sample in range(3))
    assert len(room.made) == 3


def test_a_batch_that_is_not_needed_leaves_its_slot_to_another_one() -> None:
    room = Room(2 * BATCH_BYTES)
    room.prepare((0,), (1,))
    room.batches.release()
    assert room.prepare((1,), (2,)) == ""
    assert room.batches.get((0,)) is None
    assert len(room.made) == 2


def test_batches_of_runs_that_go_on_are_not_dropped() -> None:
    room = Room(2 * BATCH_BYTES)
    room.prepare((0,), (1,))
    assert room.prepare((2,)) == (
        "3 prepared batches need 24 B of memory, 16 B are allowed (setting MLSCOPE_AHEAD_BYTES)"
    )
    assert room.prepare((1,), (0,)) == ""


def test_a_framework_binds_so_many_batches() -> None:
    room = Room(100 * BATCH_BYTES, limit_batches=2)
    assert "the framework binds 2" in room.prepare((0,), (1,), (2,))


def test_none_is_prepared_after_a_refusal() -> None:
    room = Room(2 * BATCH_BYTES)
    room.prepare((0,))
    room.batches.refuse("they change")
    assert room.prepare((0,)) == "they change"
    assert room.batches.get((0,)) is None


def test_a_changed_slot_is_noticed() -> None:
    room = Room(BATCH_BYTES)
    room.prepare((7,))
    batch = room.batches.get((7,))
    assert batch is not None
    assert not batch.is_changed
    batch.slot.arrays[0][0] += 1
    assert batch.is_changed


runs = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), max_size=8)


@given(st.integers(4, 6), runs)
def test_slots_are_within_the_limit_and_hold_their_batches(
    limit: int, orders: list[list[int]]
) -> None:
    room = Room(limit * BATCH_BYTES)
    for order in orders:
        room.batches.release()
        names = [(sample, 1) for sample in order]
        assert room.prepare(*names) == ""
        batches = [room.batches.get(name) for name in names]
        held = [int(batch.slot.arrays[0][0, 0]) for batch in batches if batch is not None]
        assert held == [sum(name) for name in names]
        assert len(room.made) <= limit


class Binding:
    """A predictor that holds the arrays of earlier calls."""

    opened: Any = None

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the inputs."""
        return inputs

    def close(self) -> None:
        """Close nothing."""

    def forget_arrays(self) -> None:
        """Hold none."""


class Overlapping(Binding):
    """One whose calls overlap."""

    def begin(self, inputs: Any) -> Any:
        """Begin nothing."""


@pytest.mark.parametrize(
    ("predictor", "kept_bytes"),
    [
        (object(), 0),
        (Binding(), 3 * 8 + 5 * 8),
        # Two sets, each block a power of two: 24 to 32, and 40 to 64.
        (Overlapping(), 2 * (32 + 64)),
    ],
)
def test_outputs_take_what_a_predictor_keeps_for_them(predictor: Any, kept_bytes: int) -> None:
    outputs = {"a": np.zeros(3), "b": np.zeros(5)}
    assert kept_output_bytes(predictor, outputs) == kept_bytes


def test_outputs_that_become_known_are_counted_once() -> None:
    outputs = {"a": np.zeros(1)}
    batches = PreparedBatches(Room(0).make, 8, 32, 100, partial(kept_output_bytes, Binding()))
    assert batches.need([(0,), (1,)]) == ""
    assert batches.count_outputs(outputs) == ""
    assert batches.count_outputs(outputs) == ""
    assert "3 prepared batches need 48 B" in batches.need([(2,)])
    large = PreparedBatches(Room(0).make, 8, 20, 100, partial(kept_output_bytes, Binding()))
    assert large.need([(0,), (1,)]) == ""
    assert "2 prepared batches need 32 B" in large.count_outputs(outputs)
