"""The benchmark of feeding: what a call waited for, and mlscope as LoadGen's system under test."""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import feeding_peers
from benchmarks.feeding import Calls
from benchmarks.feeding_model import AHEAD, BATCHES, MANIFESTS, order_of
from benchmarks.feeding_peers import mlscope_by_loadgen
from services.agent.link.messages import PerformOrder
from services.agent.predictors import Tensors
from services.agent.worker.session_opener import SessionOpener

CALL_MS = 60


def sleep(inputs: Tensors) -> Tensors:
    """Let the core go."""
    time.sleep(CALL_MS / 1e3)
    return inputs


def compute(inputs: Tensors) -> Tensors:
    """Take the core for so long, whoever else wants it."""
    began_ns = time.thread_time_ns()
    while time.thread_time_ns() - began_ns < CALL_MS * 1e6:
        pass
    return inputs


def test_a_call_waits_where_it_is_neither_on_a_core_nor_waits_for_one() -> None:
    sleeping, computing = Calls(sleep), Calls(compute)
    sleeping.predict({})
    computing.predict({})
    assert sleeping.waiting_ms[0] > CALL_MS / 2 > computing.waiting_ms[0]
    assert min(sleeping.times_ms + computing.times_ms) > CALL_MS / 2


def test_every_sample_that_loadgen_issues_is_answered_once_by_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[int] = []

    def offline(issue: Callable[[Sequence[Any], Any], None], *_: Any) -> float:
        samples = [SimpleNamespace(index=number) for number in range(BATCHES[1])]
        random.Random(1).shuffle(samples)
        issue(samples, lambda batch: answered.extend(sample.index for sample in batch))
        return 42.0

    monkeypatch.setattr(feeding_peers, "offline", offline)
    order = order_of(AHEAD, batch_size=1)
    opener = SessionOpener(PerformOrder(order, MANIFESTS), tmp_path)
    with closing(opener.open()) as session:
        rate_hz, predict_ms = mlscope_by_loadgen(session, order, opener)
    assert answered == list(range(BATCHES[1]))
    assert rate_hz == 42.0
    assert predict_ms > 0
