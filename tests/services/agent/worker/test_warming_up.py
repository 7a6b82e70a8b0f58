"""The queries that warm a session up."""

import time
from pathlib import Path

import pytest

from services.agent.errors import PredictFailed
from services.agent.predictors import Opened, Predictor, Tensors
from services.agent.worker.opening import open_session
from services.agent.worker.preparation.shares import LEAST_SLOTS
from services.agent.worker.queries.query import Query
from services.agent.worker.queries.stages import Stages
from services.agent.worker.warming_up import warm_up
from tests.services.agent.builders import MANIFESTS, a_subject


def test_warming_up_fills_every_slot_and_leaves_nothing_busy(tmp_path: Path) -> None:
    session = open_session(a_subject("tiny_cnn", "noise32", warmup=4), 2, MANIFESTS, tmp_path)
    for slot in session.slots:
        slot.arrays[0][:] = 0
    warm_up(session.supply, session.predictor, session.slots, LEAST_SLOTS)
    assert all(slot.arrays[0].any() for slot in session.slots)
    assert session.busy_since_ns() == 0
    session.close()


class Picky:
    """A predictor that raises at its first calls."""

    def __init__(self, inner: Predictor, times: int) -> None:
        self.inner, self.left, self.answered = inner, times, 0

    @property
    def opened(self) -> Opened:
        """Return what was opened."""
        return self.inner.opened

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs. Raises PredictFailed."""
        self.left -= 1
        if self.left >= 0:
            raise PredictFailed("index out of range")
        self.answered += 1
        return self.inner.predict(inputs)

    def close(self) -> None:
        """Free nothing."""


def test_bad_samples_at_the_front_are_made_up_for(tmp_path: Path) -> None:
    one = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    picky = Picky(one.predictor, 5)
    warm_up(one.supply, picky, one.slots, 2)
    assert (picky.left, picky.answered) == (-2, 2)
    one.close()


def test_a_model_that_raises_over_every_query_is_not_warmed_for_ever(tmp_path: Path) -> None:
    one = open_session(a_subject(), 1, MANIFESTS, tmp_path)
    picky = Picky(one.predictor, 1000)
    with pytest.raises(PredictFailed, match=r"^predict: index out of range$"):
        warm_up(one.supply, picky, one.slots, 2)
    assert picky.left > 900
    one.close()


def test_waiting_is_no_time_of_finishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By this time, and by the same clock while a run streams, another process is to finish."""

    def wait_and_finish(stages: Stages, query: Query) -> None:
        time.sleep(0.05)
        finish(stages, query)

    finish = Stages.finish
    monkeypatch.setattr(Stages, "finish", wait_and_finish)
    session = open_session(a_subject("tiny_cnn", "noise32", warmup=0), 2, MANIFESTS, tmp_path)
    warm = warm_up(session.supply, session.predictor, session.slots, LEAST_SLOTS)
    session.close()
    assert 0 < warm.finish_ns < 50_000_000
