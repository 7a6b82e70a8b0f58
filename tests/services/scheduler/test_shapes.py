"""Shapes of loads: what planning needs, made once, kept within bounds."""

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mlscope.load import InvalidParameter, Load, UnknownScenario, scenario_named
from services.scheduler.shapes import Shape, Shapes


@pytest.mark.parametrize(
    ("scenario", "parameters", "shape"),
    [
        ("online", {"queries": 7}, Shape(7, False, False, "local", 0.0)),
        ("batched", {"queries": 7}, Shape(7, False, True, "local", 0.0)),
        (
            "fixed_rate",
            {"queries": 5, "rate_hz": 2.0},
            Shape(5, True, False, "remote", 2.0),
        ),
    ],
)
def test_a_shape_is_that_of_the_load(
    scenario: str, parameters: dict[str, Any], shape: Shape
) -> None:
    assert Shapes().of(scenario, parameters, 1, 64) == shape


def test_the_same_load_is_made_once_and_another_anew() -> None:
    shapes = Shapes()
    first = {"queries": 5, "rate_hz": 2.0}
    for parameters, size, samples, made in (
        (first, 1, 64, 1),
        ({"rate_hz": 2.0, "queries": 5}, 1, 64, 1),
        (first, 2, 64, 2),
        (first, 1, 65, 3),
        ({"queries": 6, "rate_hz": 2.0}, 1, 64, 4),
        (first, 1, 64, 4),
    ):
        shapes.of("poisson", parameters, size, samples)
        assert shapes.made == made
    shapes.of("fixed_rate", first, 1, 64)
    assert shapes.made == 5


def test_what_was_asked_for_last_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.scheduler.shapes._MOST_KEPT", 2)
    shapes = Shapes()
    for queries in (1, 2, 1, 3, 1):
        shapes.of("online", {"queries": queries}, 1, 64)
    assert shapes.made == 3, "1 was used after 2, which gives way to 3"
    shapes.of("online", {"queries": 2}, 1, 64)
    assert shapes.made == 4


def test_a_load_that_cannot_be_made_is_not_remembered() -> None:
    shapes = Shapes()
    for _ in range(2):
        with pytest.raises(InvalidParameter):
            shapes.of("online", {"queries": 0}, 1, 64)
        with pytest.raises(UnknownScenario):
            shapes.of("onlin", {}, 1, 64)
    assert shapes.of("online", {"queries": 1}, 1, 64).queries == 1


def test_a_text_no_encoding_takes_is_refused_by_the_scenario() -> None:
    with pytest.raises(InvalidParameter):
        Shapes().of("online", {"queries": "\ud800"}, 1, 64)


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

    monkeypatch.setattr("services.scheduler.shapes.scenario_named", lambda _: slow)
    shapes = Shapes()
    threads = [
        threading.Thread(target=shapes.of, args=("slow", {"n": number % 2}, 1, 1))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, shapes.made) == (1, 2)


def test_built_in_scenarios_are_made_whole_only_to_be_measured() -> None:
    load = scenario_named("poisson")({"queries": 9}, 3, 64)
    shape = Shapes().of("poisson", {"queries": 9}, 3, 64)
    assert load.due_ns is not None
    assert (shape.queries, shape.last_due_s) == (9, load.due_ns[-1] / 1e9)
