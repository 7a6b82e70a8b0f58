"""Load shapes that threads share."""

import asyncio
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from mlscope.load import Load
from mlscope.load.errors import LoadTooSlow
from mlscope.load.scenarios import Scenario, online
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.request import Match
from services.scheduler.shared_load_shapes import SharedLoadShapes
from tests.services.scheduler.samples import a_request
from tests.services.scheduler.test_request_answers import answers_over, asked


def test_a_load_that_takes_long_keeps_nobody_else_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has_begun, is_over = threading.Event(), threading.Event()

    def slow(parameters: Mapping[str, Any], size: int, samples: int) -> Load:
        if parameters:
            has_begun.set()
            assert is_over.wait(30)
        return Load("slow", None, np.zeros((1, size), np.int32), concurrency=1, pacing="local")

    monkeypatch.setattr("services.scheduler.placement.load_shapes.scenario_named", lambda _: slow)
    shapes = SharedLoadShapes()
    shapes.of("slow", {}, 1, 1)
    with ThreadPoolExecutor() as threads:
        threads.submit(shapes.of, "slow", {"n": 1}, 1, 1)
        assert has_begun.wait(30)
        try:
            for known in (("slow", {}), ("online", {"queries": 3})):
                assert threads.submit(shapes.of, *known, 1, 1).result(5).queries > 0
        finally:
            is_over.set()


def test_a_load_that_is_never_made_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    is_over = threading.Event()

    def endless(*_: object) -> Load:
        is_over.wait(30)
        return online({}, 1, 1)

    def named(name: str) -> Scenario:
        return endless if name == "endless" else online

    monkeypatch.setattr("services.scheduler.placement.load_shapes.scenario_named", named)
    shapes = SharedLoadShapes(making_s=0.05)
    begun_s = time.monotonic()
    for number in range(40):  # only the first has a thread and its time
        with pytest.raises(LoadTooSlow, match="'endless' of another package made no load"):
            shapes.of("endless", {"n": number}, 1, 1)
    assert shapes.of("other", {"queries": 3}, 1, 1).queries == 3
    assert time.monotonic() < begun_s + 1
    assert len(caplog.records) == 1
    is_over.set()


async def test_requests_for_loads_that_take_long_leave_threads_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_over = threading.Event()

    def slow(_: Mapping[str, Any], size: int, samples: int) -> Load:
        assert is_over.wait(30)
        return Load("slow", None, np.zeros((1, size), np.int32), concurrency=1, pacing="local")

    def matching(name: str, parameters: Mapping[str, Any]) -> Match:
        scenario = {"name": name, "parameters": parameters}
        return Match(**a_request(scenarios=[scenario]).model_dump())

    monkeypatch.setattr("services.scheduler.placement.load_shapes.scenario_named", lambda _: slow)
    async with connect(MemoryServer(), "scheduler") as bus:
        answers = answers_over(bus)
        many = [asyncio.create_task(asked(answers, matching("slow", {"n": n}))) for n in range(40)]
        await asyncio.sleep(0)
        try:
            assert (await asked(answers, matching("online", {})))["dataset"] == "vectors:1.0.0"
        finally:
            is_over.set()
        assert all("dataset" in answer for answer in await asyncio.gather(*many))


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
