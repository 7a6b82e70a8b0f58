"""Shapes of loads: what planning needs to know, made once, kept within bounds."""

import math
import tracemalloc
from typing import Any

import pytest

from mlscope.load import InvalidParameter, UnknownScenario, scenario_named
from mlscope.load.errors import TooLong
from services.scheduler.placement.load_shapes import LoadShape, LoadShapes


@pytest.mark.parametrize(
    ("scenario", "parameters", "shape"),
    [
        ("online", {"queries": 7}, LoadShape(7, False, False, "local", 0.0)),
        ("batched", {"queries": 7}, LoadShape(7, False, True, "local", 0.0)),
        (
            "fixed_rate",
            {"queries": 5, "rate_hz": 2.0},
            LoadShape(5, True, False, "remote", 2.0),
        ),
    ],
)
def test_a_shape_is_that_of_the_load(
    scenario: str, parameters: dict[str, Any], shape: LoadShape
) -> None:
    assert LoadShapes().of(scenario, parameters, 1, 64) == shape


def test_the_same_load_is_made_once_and_another_anew() -> None:
    shapes = LoadShapes()
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
    monkeypatch.setattr("services.scheduler.placement.load_shapes._MAX_SHAPES", 2)
    shapes = LoadShapes()
    for queries in (1, 2, 1, 3, 1):
        shapes.of("online", {"queries": queries}, 1, 64)
    assert shapes.made == 3, "1 was used after 2, which gives way to 3"
    shapes.of("online", {"queries": 2}, 1, 64)
    assert shapes.made == 4


def test_a_load_that_cannot_be_made_is_not_remembered() -> None:
    shapes = LoadShapes()
    for _ in range(2):
        with pytest.raises(InvalidParameter):
            shapes.of("online", {"queries": 0}, 1, 64)
        with pytest.raises(UnknownScenario):
            shapes.of("onlin", {}, 1, 64)
    assert shapes.of("online", {"queries": 1}, 1, 64).queries == 1


def test_a_text_no_encoding_takes_is_refused_by_the_scenario() -> None:
    with pytest.raises(InvalidParameter):
        LoadShapes().of("online", {"queries": "\ud800"}, 1, 64)


def test_built_in_scenarios_are_made_whole_only_to_be_measured() -> None:
    load = scenario_named("poisson")({"queries": 9}, 3, 64)
    shape = LoadShapes().of("poisson", {"queries": 9}, 3, 64)
    assert load.due_ns is not None
    assert (shape.queries, shape.last_due_s) == (9, load.due_ns[-1] / 1e9)


@pytest.mark.parametrize("scenario", ["online", "batched", "fixed_rate", "poisson"])
def test_a_long_load_is_not_made_for_its_shape(scenario: str) -> None:
    """Made whole, 5 million queries of 10 samples in random order take seconds and 1 GB."""
    parameters = {"queries": 5_000_000, "sample_seed": 1}
    tracemalloc.start()
    shape = LoadShapes().of(scenario, parameters, 10, 1000)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 5_000_000
    assert shape.queries == 5_000_000
    assert shape.last_due_s in (0.0, 4_999_999 / 20)
    with pytest.raises(InvalidParameter, match="from 1 to 4545454"):
        LoadShapes().of(scenario, parameters, 11, 1000)


def test_a_long_load_that_ends_too_late_is_refused() -> None:
    slowest = {"queries": 10_000_000, "rate_hz": 1e-3}
    with pytest.raises(TooLong):
        LoadShapes().of("fixed_rate", slowest, 1, 1)


def test_an_open_loop_has_an_offered_rate() -> None:
    fixed = LoadShapes().of("fixed_rate", {"queries": 5, "rate_hz": 2.0}, 1, 1)
    assert fixed.offered_hz == pytest.approx(2.0)
    assert LoadShapes().of("online", {"queries": 5}, 1, 1).offered_hz == 0.0
    assert LoadShape(5, True, False, "local", 0.0).offered_hz == math.inf
