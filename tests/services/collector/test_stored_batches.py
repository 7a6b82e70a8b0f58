"""Which stored batches are in no backup, by their places in the streams."""

import pytest

from mlscope.bus.records import Recorded
from schemas.batch import Batch
from schemas.message import Envelope
from schemas.subjects import subject_of
from services.collector.stored_batches import StoredBatches
from tests.services.collector.builders import a_trace, some_outputs, some_queries


def stored(batch: Batch, sequence: int) -> Recorded:
    """Return a batch at a sequence of its stream."""
    envelope = Envelope.around(batch, id="b", cause="", time_ns=0)
    return Recorded(subject_of(batch), sequence, envelope, batch)


@pytest.mark.parametrize(
    ("saved", "left", "unsaved", "gone"),
    [
        ({}, {}, ["e1"], []),
        ({"TRACES": 7}, {}, ["e1"], []),
        ({"TRACES": 8}, {}, [], []),
        ({"QUERIES": 99}, {"QUERIES": 99}, ["e1"], []),
        ({}, {"TRACES": 4}, ["e1"], []),
        ({}, {"TRACES": 5}, ["e1"], ["e1"]),
        ({"TRACES": 6}, {"TRACES": 6}, ["e1"], []),
        ({"TRACES": 6}, {"TRACES": 7}, ["e1"], ["e1"]),
    ],
)
def test_batches_above_the_last_that_a_backup_has_are_unsaved(
    saved: dict[str, int], left: dict[str, int], unsaved: list[str], gone: list[str]
) -> None:
    batches = StoredBatches()
    batches.note([stored(a_trace(0), 5), stored(a_trace(1), 8)])
    assert batches.unsaved(saved, left) == (unsaved, gone)


def test_what_came_before_the_first_batch_seen_may_have_left() -> None:
    batches = StoredBatches()
    batches.note([stored(a_trace(3), 9)])
    assert batches.unsaved({}, {"TRACES": 2}) == (["e1"], ["e1"])
    assert batches.unsaved({"TRACES": 2}, {"TRACES": 2}) == (["e1"], [])


def test_the_first_batch_may_come_after_others() -> None:
    batches = StoredBatches()
    batches.note([stored(a_trace(1), 6), stored(a_trace(0), 5)])
    assert batches.unsaved({}, {"TRACES": 4}) == (["e1"], [])


def test_each_kind_has_its_own_place() -> None:
    batches = StoredBatches()
    batches.note([stored(some_queries(), 5), stored(some_outputs(), 9), stored(a_trace(), 1)])
    assert batches.unsaved({"QUERIES": 5, "TRACES": 1}, {}) == (["e1"], [])
    assert batches.unsaved({"QUERIES": 9, "TRACES": 1}, {}) == ([], [])


def test_attempts_of_an_evaluation_share_its_id() -> None:
    batches = StoredBatches()
    for run in ("r1", "r2", "r3"):
        batches.note([stored(a_trace(evaluation=str(b"e77", "ascii"), run=run), 5)])
    ids = {id(attempt.evaluation) for attempt in batches._attempts.values()}
    assert (len(batches._attempts), len(ids)) == (3, 1)


def test_the_newest_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.collector.stored_batches._MOST_ATTEMPTS", 2)
    batches = StoredBatches()
    for number in range(3):
        batches.note([stored(a_trace(evaluation=f"e{number}"), number + 1)])
    assert batches.unsaved({}, {}) == (["e1", "e2"], [])
