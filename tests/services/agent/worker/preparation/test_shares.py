"""Samples shared among processes, and the number of processes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent.worker.preparation.shares import (
    needed_processes,
    processes_for,
    shares,
    slots_for,
)

BACKLOGS = st.lists(st.integers(0, 500), min_size=1, max_size=20)


@given(BACKLOGS, st.integers(0, 500))
def test_every_sample_is_given_and_all_processes_end_together(
    backlogs: list[int], count: int
) -> None:
    given_counts = shares(backlogs, count)
    assert sum(given_counts) == count
    assert min(given_counts) >= 0
    ends = [own + more for own, more in zip(backlogs, given_counts, strict=True)]
    busy = [end for end, more in zip(ends, given_counts, strict=True) if more]
    assert not busy or max(busy) - min(ends) <= 1


def test_a_slow_process_gets_less() -> None:
    assert shares([0, 0], 8) == [4, 4]
    assert shares([6, 0], 8) == [1, 7]
    assert shares([9, 0, 3], 4) == [0, 4, 0]


@pytest.mark.parametrize(
    ("cores", "predicting", "needed", "most", "processes"),
    [
        (16, 1, 64, 64, 14),
        (16, 1, 5, 64, 5),
        (16, 1, 64, 8, 8),
        (2, 1, 64, 64, 1),
        (2, 2, 64, 64, 1),
        (16, 16, 64, 64, 1),
        (16, 0, 64, 64, 14),
        (2, 0, 64, 64, 2),
        (2, 0, 1, 64, 1),
        (1, 0, 64, 64, 1),
    ],
)
def test_processes_get_the_cores_that_the_framework_leaves(
    cores: int, predicting: int, needed: int, most: int, processes: int
) -> None:
    assert processes_for(cores, predicting, needed, most) == processes


def test_a_fast_model_needs_more_processes() -> None:
    assert needed_processes(100, 10, 64) == 21
    assert needed_processes(10, 100, 64) == 2
    assert needed_processes(10, 100, 1) == 1
    assert needed_processes(100, 1, 64) == 64
    assert needed_processes(100, 0, 64) == needed_processes(0, 100, 64) == 64


@pytest.mark.parametrize(
    ("batch_size", "processes", "in_flight", "slots"),
    [
        (256, 14, 64, 5),
        (256, 14, 4, 4),
        (1, 14, 64, 18),
        (1, 14, 8, 8),
        (1, 14, 2, 3),
        (4, 14, 64, 8),
        (1, 1, 64, 5),
    ],
)
def test_slots_keep_all_processes_busy(
    batch_size: int, processes: int, in_flight: int, slots: int
) -> None:
    assert slots_for(batch_size, processes, in_flight) == slots
