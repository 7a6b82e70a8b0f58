"""Rows of predictions: what a model answered for a sample, and what is right."""

from typing import Any

import pytest

from cli.printing.predictions import prediction_rows
from schemas.analysis import FailedQuery, Prediction, Predictions

CLASSES: tuple[dict[str, Any], ...] = tuple(
    {"type": "classification", "index": index, "label": f"c{index}", "probability": 0.5**index}
    for index in range(7)
)


def rows_of(**fields: Any) -> list[dict[str, Any]]:
    prediction = Prediction(run="r", query=0, sample=3, name="cat.jpg", **fields)
    return prediction_rows(Predictions(evaluation="e", predictions=(prediction,))).maps()


def test_the_best_five_answers_are_listed_and_what_is_right_once() -> None:
    rows = rows_of(features=CLASSES, truth={"labels": ["c1"], "classes": [1]})
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["answer"] for row in rows] == ["c0", "c1", "c2", "c3", "c4"]
    assert [row["right"] for row in rows] == ["c1", "", "", "", ""]
    assert {(row["run"], row["sample"], row["name"]) for row in rows} == {("r", 3, "cat.jpg")}


@pytest.mark.parametrize(
    ("truth", "right"),
    [
        ({}, ""),
        ({"labels": [], "texts": ["a", "b"]}, "a / b"),
        ({"classes": [1, 2, 3, 4]}, "1 / 2 / 3"),
        ({"values": [0.5]}, "0.5"),
    ],
)
def test_a_sample_without_answers_says_what_is_right(truth: dict[str, Any], right: str) -> None:
    (row,) = rows_of(truth=truth)
    assert (row["rank"], row["answer"], row["right"]) == (None, "nothing was found", right)


def test_failed_queries_come_last() -> None:
    failed = (FailedQuery(run="r", query=7, error="predict: no memory"),)
    prediction = Prediction(run="r", query=0, sample=0, features=CLASSES[:1])
    rows = prediction_rows(
        Predictions(evaluation="e", predictions=(prediction,), failed=failed)
    ).maps()
    assert [row["name"] for row in rows] == ["", "query 7"]
    assert rows[-1]["answer"] == "no answer: predict: no memory"
