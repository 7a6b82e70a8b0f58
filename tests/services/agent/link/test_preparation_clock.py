"""Which samples a worker prepares, as its host sees it."""

import os
from pathlib import Path

import pytest

from services.agent.link.preparation_clock import (
    PLACES,
    PreparationClock,
    SampleUnderWay,
    preparing_text,
)
from services.agent.link.ring import Handover
from services.agent.worker.queries import streaming


def test_the_host_sees_what_the_worker_prepares_the_oldest_first(tmp_path: Path) -> None:
    host = Handover.create(1000, 2000, tmp_path)
    worker = Handover(os.dup(host.ring_fd), os.dup(host.spool_fd), host.spool_bytes)
    clock = worker.preparation
    with clock.preparing(8):
        with clock.preparing(0), pytest.raises(ValueError, match="torn"), clock.preparing(3):
            raise ValueError("torn")
        with clock.preparing(5):
            under_way = host.preparation.under_way
            assert [sample.sample for sample in under_way] == [8, 5]
            assert 0 < under_way[0].since_ns < under_way[1].since_ns
    assert host.preparation.under_way == []
    worker.close()
    host.close()


def test_every_thread_that_prepares_has_a_place() -> None:
    assert streaming._MOST_WORKERS < PLACES
    clock = PreparationClock()
    for _ in range(2 * PLACES):
        with clock.preparing(1):
            assert len(clock.under_way) == 1


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        ((), ""),
        ((8,), " while sample 8 was prepared"),
        ((3, 8, 9), " while samples 3, 8 and 9 were prepared"),
    ],
)
def test_samples_are_named_for_a_sentence(samples: tuple[int, ...], text: str) -> None:
    assert preparing_text([SampleUnderWay(sample, 1) for sample in samples]) == text
