"""Load shapes that threads share."""

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mlscope.load import Load
from services.scheduler.shared_load_shapes import SharedLoadShapes


def test_threads_make_one_load_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = most = 0
    counting, both_came = threading.Lock(), threading.Event()

    def slow(parameters: Mapping[str, Any], size: int, samples: int) -> Load:
        nonlocal at_once, most
        with counting:
            at_once += 1
            most = max(most, at_once)
        both_came.wait(0.2)
        with counting:
            at_once -= 1
        return Load("slow", None, np.zeros((1, size), np.int32), concurrency=1, pacing="local")

    monkeypatch.setattr("services.scheduler.placement.load_shapes.scenario_named", lambda _: slow)
    shapes = SharedLoadShapes()
    threads = [
        threading.Thread(target=shapes.of, args=("slow", {"n": number % 2}, 1, 1))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, shapes.made) == (1, 2)
