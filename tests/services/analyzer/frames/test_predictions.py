"""Answers with their ground truth: which rows are one, what is right, which samples failed."""

import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from services.analyzer.frames.evaluation import Run, Sample
from services.analyzer.frames.predictions import (
    Pool,
    Prediction,
    asked_samples,
    pools_of,
    prediction_of,
    predictions_of,
)
from tests.services.analyzer.golden import frames_in

CAT = {"type": "classification", "index": 3, "label": "cat", "probability": 0.75}


def row(value: Any, sample: int = 1, query: int = 5) -> dict[str, Any]:
    """Return a row of outputs as it is stored."""
    return {"query": query, "sample": sample, "features": json.dumps(value)}


def read(value: Any, sample: int = 1, samples: Sequence[Sample] = ()) -> Prediction | None:
    return prediction_of("r0", row(value, sample), samples)


def answer(*features: dict[str, Any], **truth: Any) -> Prediction:
    return Prediction("r0", 0, 0, list(features), truth)


def test_a_row_is_an_answer_with_all_that_the_agent_said_of_it() -> None:
    value = {
        "features": [CAT],
        "truth": {"name": "b.jpg", "labels": ["dog"], "classes": [4]},
        "judged": {"pixels": 9},
        "raw": {"": "AAAA"},
    }
    prediction = read(value)
    assert prediction == Prediction(
        "r0",
        5,
        1,
        [CAT],
        {"labels": ["dog"], "classes": [4]},
        {"pixels": 9},
        name="b.jpg",
        raw={"": "AAAA"},
    )
    assert read([CAT]) == Prediction("r0", 5, 1, [CAT])


@pytest.mark.parametrize("text", ["[" * 1200 + "]" * 1200, f'[{{"probability": {"9" * 5000}}}]'])
def test_a_row_that_python_cannot_read_is_no_answer(text: str) -> None:
    assert prediction_of("r0", {**row([]), "features": text}) is None


def test_a_probability_beyond_all_numbers_is_none() -> None:
    value = f'[{{"probability": {"9" * 400}}}, {{"probability": 0.5}}]'
    prediction = prediction_of("r0", {**row([]), "features": value})
    assert prediction is not None
    assert prediction.features[0] == {"probability": 0.5}


@pytest.mark.parametrize(
    ("value", "is_answer"),
    [
        ([], True),
        ({"features": []}, True),
        ({"features": [], "truth": {}}, True),
        ("torn", False),
        ({"features": "torn"}, False),
        ([3], False),
        (None, False),
    ],
)
def test_nothing_found_is_an_answer_and_a_damaged_row_is_none(value: Any, is_answer: bool) -> None:
    assert (read(value) is not None) is is_answer


SAMPLES = Sample("a.jpg", ("cat",), "p/a.jpg"), Sample("b.jpg", ("dog", "puppy"))


@pytest.mark.parametrize(
    ("truth", "sample", "labels", "name"),
    [
        ({}, 1, ["dog", "puppy"], "b.jpg"),
        ({"labels": ["fox"]}, 1, ["fox"], "b.jpg"),
        ({"labels": []}, 0, ["cat"], "a.jpg"),
        ({"name": "own.jpg"}, 0, ["cat"], "own.jpg"),
        ({}, 2, None, ""),
        ({}, -1, None, ""),
        ("torn", 0, ["cat"], "a.jpg"),
    ],
)
def test_the_plans_samples_supply_what_a_row_lacks(
    truth: Any, sample: int, labels: list[str] | None, name: str
) -> None:
    prediction = read({"features": [CAT], "truth": truth}, sample, SAMPLES)
    assert prediction is not None
    assert (prediction.truth.get("labels"), prediction.name) == (labels, name)


@pytest.mark.parametrize(
    ("feature", "kind", "best"),
    [
        (CAT, "classification", "cat"),
        ({"label": "cat"}, "classification", "cat"),
        ({"index": 0}, "classification", 0),
        ({"index": 7, "label": ""}, "classification", 7),
        ({"type": "text", "text": "hello"}, "text", "hello"),
        ({"type": "raw", "values": [1]}, "raw", None),
        ({"values": [1]}, "", None),
    ],
)
def test_the_first_feature_says_what_an_answer_is(
    feature: dict[str, Any], kind: str, best: Any
) -> None:
    prediction = answer(feature, CAT)
    assert (prediction.kind, prediction.best) == (kind, best)
    assert (answer().kind, answer().best) == ("", None)


@pytest.mark.parametrize(
    ("feature", "truth", "is_right"),
    [
        (CAT, {"labels": ["cat"], "classes": [9]}, True),
        (CAT, {"labels": ["dog"], "classes": [3]}, False),
        (CAT, {"classes": [3]}, True),
        (CAT, {"classes": [9]}, False),
        (CAT, {}, None),
        ({"index": 3}, {"labels": ["cat"], "classes": [3]}, True),
        ({"index": 3}, {"labels": ["cat"]}, None),
        ({"type": "text", "text": "hi"}, {"texts": ["hi", "hello"]}, True),
        ({"type": "text", "text": "hi"}, {"labels": ["hello"]}, False),
        ({"type": "text", "text": "hi"}, {}, None),
        ({"type": "boundingbox", "index": 3}, {"classes": [3]}, None),
    ],
)
def test_a_feature_is_right_by_label_else_by_number_where_that_is_known(
    feature: dict[str, Any], truth: dict[str, Any], is_right: bool | None
) -> None:
    assert answer(feature, **truth).is_right(feature) is is_right


def test_features_that_the_agent_left_out_are_noticed() -> None:
    assert answer(CAT, {"left_out_features": 9}).has_left_out_features
    assert not answer(CAT).has_left_out_features


def a_run(outputs: Sequence[Any] = (), failed: Sequence[int] = (), **more: Any) -> dict[str, Any]:
    """Return a run of four queries of two samples each, in the dataset's order; some failed."""
    queries = [[n, 0, 2, None, 0, 0, 9, 9, int(n in failed)] for n in range(4)]
    parameters = {"queries": 4}
    described = {"run": "r0", "batch_size": 2, "parameters": parameters, "queries": queries}
    return described | {"outputs": list(outputs)} | more


def run_of(*outputs: Any, **more: Any) -> Run:
    return frames_in({"runs": [a_run(outputs, **more)]}).measured[0]


def test_answers_come_in_the_order_of_their_queries_without_damaged_ones() -> None:
    run = run_of([2, 7, [CAT]], [0, 9, [CAT]], [1, 8, '"torn"'], [0, 3, []])
    assert [(each.query, each.sample) for each in predictions_of(run)] == [(0, 9), (0, 3), (2, 7)]


def test_the_samples_of_failed_queries_are_those_of_the_load() -> None:
    # Queries ask for the samples 0 1, 2 3, 4 5 and 6 0 of seven.
    answered, failed = asked_samples(run_of(failed=[1, 3]), 7)
    assert (answered, failed) == ({0, 1, 4, 5}, {2, 3, 6, 0})
    assert asked_samples(run_of(), 7) == (set(), set())


@pytest.mark.parametrize("seed", [{}, {"sample_seed": 5}])
def test_of_a_long_load_the_queries_that_there_are_rows_of_are_made(seed: dict[str, int]) -> None:
    tracemalloc.start()
    long = asked_samples(run_of(failed=[1, 3], parameters={"queries": 10_000_000, **seed}), 7)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1_000_000
    assert long == asked_samples(run_of(failed=[1, 3], parameters={"queries": 4, **seed}), 7)


@pytest.mark.parametrize(("samples", "count"), [(None, 4), (3, 3), (9, 4)])
def test_failures_of_an_unknown_load_are_only_counted(samples: int | None, count: int) -> None:
    run = run_of(failed=[1, 3], scenario="of another package")
    answered, failed = asked_samples(run, samples)
    assert (answered, len(failed)) == (set(), count)
    assert all(number < 0 for number in failed)


def partly_failed(error: str, queries: int, failed: int) -> Run:
    """Return a run of four answered queries of which samples failed with an error."""
    run = a_run(failures=[[0, error, queries, "0"]])
    run["queries"] = [[*query, failed if query[0] == 0 else 0] for query in run["queries"]]
    return frames_in({"runs": [run]}).measured[0]


def test_errors_of_partly_answered_queries_name_their_samples() -> None:
    answered, failed = asked_samples(partly_failed("sample 1: torn", 1, 1), 8)
    assert (answered, failed) == (set(), {1})


@pytest.mark.parametrize(("samples", "unnamed"), [(None, 4), (2, 2)])
def test_failed_samples_that_no_error_names_are_only_counted(
    samples: int | None, unnamed: int
) -> None:
    _, failed = asked_samples(partly_failed("sample 1: torn", 1, 5), samples)
    assert 1 in failed
    assert len([number for number in failed if number < 0]) == unnamed


def pool_of(*runs: dict[str, Any], **more: Any) -> Pool:
    """Return the answers of one opened model."""
    named = [run | {"run": f"r{n}", "conditions": {"opened": "m"}} for n, run in enumerate(runs)]
    (pool,) = pools_of(frames_in({"runs": named, **more}))
    return pool


def test_a_pool_has_the_first_answer_of_each_sample_in_the_datasets_order() -> None:
    dog = CAT | {"label": "dog"}
    surer = CAT | {"probability": 0.8}
    pool = pool_of(
        a_run([[0, 4, [CAT]], [1, 2, [CAT]], [2, 3, [CAT]]]),
        a_run([[0, 4, [dog]], [1, 2, [CAT]], [2, 3, [surer]], [3, 9, [CAT]]]),
    )
    by_sample = {answer.sample: answer.run for answer in pool.answers}
    assert list(by_sample.items()) == [(2, "r0"), (3, "r0"), (4, "r0"), (9, "r1")]
    # Sample 4 got another label, sample 3 only another probability.
    assert (pool.compared, pool.differing) == (3, {4: True, 3: False})
    assert pool.row.run == "r0"


def test_a_sample_that_once_had_another_label_keeps_that_mark() -> None:
    dog, surer = CAT | {"label": "dog"}, CAT | {"probability": 0.8}
    runs = [a_run([[0, 4, [feature]]]) for feature in (CAT, dog, surer)]
    assert pool_of(*runs).differing == {4: True}


def test_repeats_within_a_run_were_compared_there() -> None:
    compared = {"opened": "m", "repeats_compared": 5}
    run = a_run([[0, 4, [CAT]], [1, 4, [CAT]]], conditions=compared)
    (pool,) = pools_of(frames_in({"runs": [run]}))
    assert (pool.compared, pool.differing) == (5, {})


def test_a_sample_is_unanswered_where_every_query_with_it_failed() -> None:
    once = a_run([[0, 0, [CAT]], [2, 4, [CAT]]], failed=[1, 3])
    pool = pool_of(once, scoring_context={"samples": 7})
    # Of the samples 2, 3, 6 and 0 of the failed queries, 0 was answered in another query.
    assert (pool.failed, pool.unanswered) == (2, 3)
    again = pool_of(once, a_run([[1, 2, [CAT]], [1, 3, [CAT]]]), scoring_context={"samples": 7})
    assert again.unanswered == 1


def test_models_that_were_opened_apart_have_pools_of_their_own() -> None:
    runs = [
        a_run(run=name, agent=agent, conditions={"opened": opened})
        for name, agent, opened in (("a", "a1", "m"), ("b", "a1", "n"), ("c", "a2", "m"))
    ]
    runs.append(a_run(run="d", agent="a1", conditions={"opened": "m"}))
    pools = pools_of(frames_in({"runs": runs}))
    assert [[run.run for run in pool.rows] for pool in pools] == [["a", "d"], ["b"], ["c"]]
