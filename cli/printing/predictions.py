"""A model's predictions for each sample, as `mlscope show EVALUATION --predictions` prints them."""

from collections.abc import Sequence
from typing import Any

from cli.printing.output import Rows, write_json, write_rows
from mlscope.texts.features import feature_lines
from schemas.analysis import Predictions

_COLUMNS = ("run", "sample", "name", "rank", "answer", "probability", "right", "detail")
_TOP = 5
_TRUTHS = ("labels", "texts", "classes", "values")
"""A sample's ground truth is in the first of these fields that it has."""


def write_predictions(predictions: Predictions, form: str) -> None:
    """Print predictions as `form`: table, json or csv; JSON has every feature and truth."""
    if form == "json":
        write_json(predictions.model_dump(mode="json"))
    else:
        write_rows(prediction_rows(predictions), form)


def prediction_rows(predictions: Predictions) -> Rows:
    """Return predictions as rows: the best five lines of each, then the failed queries."""
    rows: list[tuple[Any, ...]] = []
    for prediction in predictions.predictions:
        truths: Sequence[Any] = next(filter(None, map(prediction.truth.get, _TRUTHS)), ())
        right = " / ".join(str(value) for value in truths[:3])[:60]
        sample = (prediction.run, prediction.sample, prediction.name)
        lines = feature_lines(prediction.features)[:_TOP]
        if not lines:
            rows.append((*sample, None, "nothing was found", None, right, ""))
        rows += [
            (*sample, rank, line.answer, line.probability, right if rank == 1 else "", line.detail)
            for rank, line in enumerate(lines, start=1)
        ]
    rows += [
        (query.run, None, f"query {query.query}", None, f"no answer: {query.error}", None, "", "")
        for query in predictions.failed
    ]
    return Rows(_COLUMNS, tuple(rows), units=("", "", "", "", "", "share", "", ""))
