"""Scenarios: what each lays out, what it refuses, and that each says how it ends."""

import tracemalloc
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.load import InvalidParameter, Load, UnknownScenario, scenario_named, scenario_names
from mlscope.load.arrivals import poisson_due_ns
from mlscope.load.scenarios import BUILT_IN, batched, fixed_rate, online, poisson

names = st.sampled_from(sorted(BUILT_IN))
sizes = st.integers(1, 40)


def _due(load: Load) -> list[int] | None:
    return None if load.due_ns is None else load.due_ns.tolist()


def test_the_built_in_ones_are_found_by_name() -> None:
    assert {"online", "poisson", "fixed_rate", "batched"} <= set(scenario_names())
    assert scenario_named("poisson") is poisson


def test_an_unknown_name_is_told_what_there_is() -> None:
    with pytest.raises(UnknownScenario, match="online") as refused:
        scenario_named("posson")
    assert refused.value.name == "posson"


def test_the_entry_points_of_mlscope_are_the_built_in_functions() -> None:
    from importlib.metadata import distribution

    declared = distribution("mlscope").entry_points.select(group="mlscope.scenarios")
    assert {point.name: point.load() for point in declared} == dict(BUILT_IN), (
        "pyproject.toml and BUILT_IN differ; after mending them, run "
        ".venv/bin/pip install --no-deps --editable ."
    )


def test_a_scenario_of_another_package_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_plug_in.py").write_text(
        "def twice(given, batch_size, samples):\n    return given\n"
    )
    told = tmp_path / "a_plug_in-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: a_plug_in\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[mlscope.scenarios]\ntwice = a_plug_in:twice\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "twice" in scenario_names()
    made: Any = scenario_named("twice")({"queries": 3}, 1, 1)
    assert made == {"queries": 3}


def test_a_scenario_written_for_release_0_1_still_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_plug_in_0_1.py").write_text(
        "from mlscope.load.parameters import MOST_QUERIES, MOST_SAMPLES, Parameters\n"
        "def a_plug_in(values, batch_size, samples):\n"
        "    given = Parameters('a_plug_in', values).only('queries', 'size', 'gap_s')\n"
        "    size = given.whole('size', 4, least=1, most=min(MOST_QUERIES, MOST_SAMPLES))\n"
        "    gap_s = given.number('gap_s', 0.1, least=0.0, most=60.0)\n"
        "    return given.queries(100, batch_size), size, gap_s\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    a_plug_in = import_module("a_plug_in_0_1").a_plug_in
    assert a_plug_in({"queries": 3, "gap_s": 2}, 1, 1) == (3, 4, 2.0)
    with pytest.raises(InvalidParameter, match="size: found 0, allowed is a whole number from 1 "):
        a_plug_in({"size": 0}, 1, 1)
    with pytest.raises(InvalidParameter, match="gap_s: found 61, allowed is a number from 0 to 60"):
        a_plug_in({"gap_s": 61}, 1, 1)


@given(names)
def test_each_says_what_its_result_is(name: str) -> None:
    assert "Final performance result: " in (BUILT_IN[name].__doc__ or "")


@given(names, sizes, st.integers(1, 60), st.integers(1, 50), st.none() | st.integers(0, 2**64 - 1))
def test_samples_are_issued_equally_often(
    name: str, batch_size: int, samples: int, queries: int, seed: int | None
) -> None:
    parameters: dict[str, Any] = {"queries": queries, "sample_seed": seed}
    load = BUILT_IN[name](parameters, batch_size, samples)
    assert load.sample_indices.shape == (queries, batch_size) == (load.queries, load.batch_size)
    issued = np.bincount(load.sample_indices.ravel(), minlength=samples)
    assert issued.size == samples
    assert issued.max() - issued.min() <= 1


@pytest.mark.parametrize("mode", ["ahead", "streamed", ""])
@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_each_carries_when_its_samples_are_prepared(name: str, mode: str) -> None:
    load = BUILT_IN[name]({"samples": mode} if mode else {}, 2, 9)
    assert load.samples == mode
    with pytest.raises(InvalidParameter, match=f"{name}.samples: found 'later', allowed is ahead"):
        BUILT_IN[name]({"samples": "later"}, 2, 9)


def test_a_load_of_another_package_need_not_say_when_samples_are_prepared() -> None:
    assert Load("a_plug_in", None, np.zeros((1, 1), np.int32), 1, "local").samples == ""


@given(names, st.integers(0, 2**64 - 1))
def test_a_load_follows_from_its_parameters(name: str, seed: int) -> None:
    one, two = (BUILT_IN[name]({"sample_seed": seed}, 2, 9) for _ in range(2))
    assert np.array_equal(one.sample_indices, two.sample_indices)
    assert _due(one) == _due(two)


def test_samples_go_in_turn_without_a_seed() -> None:
    assert online({"queries": 2}, 3, 4).sample_indices.tolist() == [[0, 1, 2], [3, 0, 1]]


def test_open_loops_are_due_and_remote() -> None:
    load = poisson({"rate_hz": 1000, "queries": 30, "seed": 5}, 1, 3)
    assert _due(load) == poisson_due_ns(1000, 30, 5).tolist()
    assert (load.open_loop, load.concurrency, load.pacing) == (True, 0, "remote")
    assert _due(fixed_rate({"rate_hz": 4, "queries": 3}, 1, 3)) == [0, 25e7, 50e7]


def test_closed_loops_are_local_and_bounded() -> None:
    single, many = online({}, 1, 3), batched({"concurrency": 3}, 8, 3)
    assert (single.open_loop, single.concurrency, single.pacing) == (False, 1, "local")
    assert (many.open_loop, many.concurrency, many.pacing) == (False, 3, "local")


@pytest.mark.parametrize(
    ("name", "parameters", "field"),
    [
        ("online", {"queries": 0}, "queries"),
        ("online", {"queries": True}, "queries"),
        ("online", {"queries": "10"}, "queries"),
        ("online", {"rate_hz": 3}, "rate_hz"),
        ("poisson", {"rate_hz": 0}, "rate_hz"),
        ("poisson", {"rate_hz": float("nan")}, "rate_hz"),
        ("poisson", {"rate_hz": float("inf")}, "rate_hz"),
        ("poisson", {"seed": -1}, "seed"),
        ("poisson", {"seed": 2**64}, "seed"),
        ("fixed_rate", {"queries": 1.5}, "queries"),
        ("fixed_rate", {"sample_seed": "x"}, "sample_seed"),
        ("batched", {"concurrency": 1}, "concurrency"),
        ("batched", {"concurrency": 1025}, "concurrency"),
        ("batched", {"queries": 10**9}, "queries"),
        ("cold", {"queries": 101}, "queries"),
        ("cold", {"warm": 0}, "warm"),
        ("cold", {"warm": 10_001}, "warm"),
        ("online", {"warm": 5}, "warm"),
    ],
)
def test_a_bad_parameter_is_named(name: str, parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        BUILT_IN[name](parameters, 1, 5)
    assert (refused.value.scenario, refused.value.field) == (name, field)
    assert refused.value.actual is parameters[field]
    assert refused.value.allowed in str(refused.value)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("online", "samples"), ("poisson", "seed"), ("fixed_rate", "rate_hz"), ("batched", "samples")],
)
def test_millions_of_queries_are_not_made_to_be_refused(name: str, wrong: str) -> None:
    tracemalloc.start()
    with pytest.raises(InvalidParameter, match=wrong):
        BUILT_IN[name]({"queries": 10_000_000, wrong: "x"}, 1, 5)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1_000_000


@pytest.mark.parametrize(("batch_size", "samples"), [(0, 5), (1, 0)])
def test_nothing_to_issue_is_refused(batch_size: int, samples: int) -> None:
    with pytest.raises(InvalidParameter):
        poisson({}, batch_size, samples)


def test_whole_floats_of_json_are_counts() -> None:
    assert online({"queries": 20.0}, 1, 1).queries == 20


@pytest.mark.parametrize(
    ("name", "parameters", "queries"),
    [
        ("cold", {"queries": 100, "warm": 10_000}, 100),
        ("cold", {"queries": 1, "warm": 1}, 1),
        ("batched", {"concurrency": 1024}, 20),
        ("poisson", {"seed": 2**64 - 1, "rate_hz": 1e7}, 100),
        ("fixed_rate", {"rate_hz": 0.001}, 100),
    ],
)
def test_parameters_may_be_as_large_or_small_as_they_say(
    name: str, parameters: dict[str, Any], queries: int
) -> None:
    assert BUILT_IN[name](parameters, 1, 5).queries == queries


@pytest.mark.parametrize(
    ("name", "queries", "concurrency", "last_due_s"),
    [
        ("online", 50, 1, None),
        ("batched", 20, 2, None),
        ("cold", 3, 1, None),
        ("fixed_rate", 100, 0, 99 / 20),
    ],
)
def test_a_scenario_without_parameters_is_as_its_text_says(
    name: str, queries: int, concurrency: int, last_due_s: float | None
) -> None:
    load = BUILT_IN[name]({}, 1, 5)
    assert (load.queries, load.concurrency) == (queries, concurrency)
    due_ns = load.due_ns
    assert (None if due_ns is None else due_ns[-1] * 1e-9) == pytest.approx(last_due_s)


def test_poisson_arrivals_are_those_of_seed_1_at_20_hz_by_default() -> None:
    assert _due(poisson({}, 1, 5)) == poisson_due_ns(20.0, 100, 1).tolist()


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_nobody_changes_a_load_that_was_made(name: str) -> None:
    load = BUILT_IN[name]({}, 2, 9)
    arrays: list[Any] = [load.sample_indices, *([] if load.due_ns is None else [load.due_ns])]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_all_bits_of_a_seed_make_the_order() -> None:
    orders = {
        tuple(online({"queries": 30, "sample_seed": seed}, 1, 30).sample_indices.ravel().tolist())
        for seed in (0, 1, 2**32, 2**32 + 1, 2**63)
    }
    assert len(orders) == 5
    assert all(sorted(order) == list(range(30)) for order in orders)


def test_each_pass_over_the_samples_has_an_order_of_its_own() -> None:
    indices = online({"queries": 90, "sample_seed": 7}, 1, 30).sample_indices.ravel()
    passes = [tuple(part.tolist()) for part in np.split(indices, 3)]
    assert len(set(passes)) == 3
