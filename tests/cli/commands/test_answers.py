"""Answers as rows for people."""

from cli.commands import predictions
from cli.commands.predict import rows_of
from mlscope.client.predicting import Predicted
from schemas.analysis import FailedQuery, Prediction, Predictions

CATS = tuple({"label": f"cat{n}", "probability": 0.5} for n in range(9))


def test_a_file_has_its_best_lines_or_its_reason() -> None:
    found = [Predicted("a", CATS), Predicted("b", error="torn"), Predicted("c")]
    rows = rows_of(found, top=2).rows
    assert [row[:3] for row in rows] == [
        ("a", 1, "cat0"),
        ("a", 2, "cat1"),
        ("b", None, "no answer: torn"),
        ("c", None, "nothing was found"),
    ]


def test_predictions_tell_what_is_right_once_and_failed_queries_last() -> None:
    first = Prediction(
        run="r0", query=0, sample=4, name="a.jpg", features=CATS, truth={"labels": ["cat", "tom"]}
    )
    nothing = Prediction(run="r0", query=1, sample=5, truth={"texts": ["hello"]})
    failed = FailedQuery(run="r0", query=7, error="torn")
    found = Predictions(evaluation="e1", predictions=(first, nothing), total=2, failed=(failed,))
    rows = predictions.rows_of(found).rows
    assert [row[3:7] for row in rows[:2]] == [(1, "cat0", 0.5, "cat / tom"), (2, "cat1", 0.5, "")]
    assert len(rows) == 5 + 1 + 1
    assert rows[5][1:7] == (5, "", None, "nothing was found", None, "hello")
    assert rows[6][2:5] == ("query 7", None, "no answer: torn")
