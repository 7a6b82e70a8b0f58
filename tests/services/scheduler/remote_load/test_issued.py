"""What becomes of a remote load's queries, whatever order answers and stamps come in."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlscope.tracing.batches import columns_of
from services.scheduler.remote_load.issued import LoadProgress, batches_of
from services.scheduler.remote_load.query_status import ANSWERED, LOST
from tests.services.scheduler.remote_load.test_processes import an_order


def columns(queries: list[int], ended_ns: int) -> dict[str, object]:
    """Return answers as the reader tells them."""
    count = len(queries)
    return {
        "query": np.array(queries, "<i4").tobytes(),
        "ended_ns": np.full(count, ended_ns, "<i8").tobytes(),
        "service_ns": np.full(count, 5, "<i8").tobytes(),
        "status": np.full(count, ANSWERED, "<i1").tobytes(),
        "errors": {},
    }


@given(st.integers(1, 40), st.integers(0, 10_000))
def test_every_query_is_final_once_and_never_before_its_stamp(count: int, seed: int) -> None:
    dice = random.Random(seed)
    stamps = np.zeros(count, np.int64)
    progress = LoadProgress(1000, np.arange(count, dtype=np.int64), stamps)
    told: list[int] = []
    answered = [query for query in range(count) if dice.random() < 0.8]
    for query in answered:
        if dice.random() < 0.7:
            stamps[query] = 2000 + query
        final = progress.take(columns([query], 5000)).tolist()
        assert all(stamps[each] for each in final)
        told += final
    stamps[stamps == 0] = 9000
    told += progress.give_up().tolist()
    assert sorted(told) == list(range(count))
    lost = np.flatnonzero(progress.load.status == LOST).tolist()
    assert lost == sorted(set(range(count)) - set(answered))
    assert all(progress.load.errors[query] == "no answer" for query in lost)


def test_times_count_from_the_origin() -> None:
    progress = LoadProgress(1000, np.array([400], np.int64), np.array([1500], np.int64))
    progress.take(columns([0], 1800))
    load = progress.load
    assert (load.issued_ns[0], load.ended_ns[0], load.service_ns[0]) == (500, 800, 5)
    assert load.failed == 0


def test_lost_queries_and_late_issue_are_told() -> None:
    progress = LoadProgress(1000, np.zeros(3, np.int64), np.array([1000, 1000, 1800], np.int64))
    progress.take(columns([0, 2], 2000))
    progress.give_up()
    assert (progress.load.failed, progress.load.lost) == (1, 1)
    assert progress.load.late_p99_ns == round(0.98 * 800)


def test_queries_answered_in_part_say_so_in_their_batch() -> None:
    progress = LoadProgress(0, np.zeros(3, np.int64), np.full(3, 5, np.int64))
    part = {"failed": {1: 4}, "errors": {1: "sample 2: decode: torn"}}
    progress.take({**columns([0, 1, 2], 9), **part})
    (batch,) = batches_of(an_order(), "r0", progress.load, np.arange(3, dtype=np.int32))
    told = columns_of(batch)
    assert told["failed"].tolist() == [-1, 4, -1]
    assert told["status"].tolist() == [ANSWERED] * 3
    assert (batch.error_rows, batch.error_texts) == ((1,), ("sample 2: decode: torn",))
    (good,) = batches_of(an_order(), "r0", progress.load, np.array([0], np.int32))
    assert good.failed == b""
