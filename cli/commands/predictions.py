"""`mlscope show EVALUATION --predictions`: what the model answered to each sample."""

from collections.abc import Sequence
from typing import Any

from cli.output import Rows, write_json, write_rows
from mlscope.answers import lines_of
from mlscope.client import AsyncClient
from schemas.analysis import Prediction, Predictions

_COLUMNS = ("run", "sample", "name", "rank", "answer", "probability", "right", "detail")
_TOP = 5


async def write_predictions(client: AsyncClient, evaluation: str, run: str, form: str) -> None:
    """Print predictions of a run, or of all; JSON has every feature and truth."""
    found = await client.predictions(evaluation, run)
    if form == "json":
        write_json(found.model_dump(mode="json"))
    else:
        write_rows(rows_of(found), form)


def rows_of(found: Predictions) -> Rows:
    """Return predictions as rows: the best five lines of each, then queries that failed."""
    rows = [row for each in found.predictions for row in _rows(each)]
    rows += [
        (each.run, None, f"query {each.query}", None, f"no answer: {each.error}", None, "", "")
        for each in found.failed
    ]
    return Rows(_COLUMNS, tuple(rows), units=("", "", "", "", "", "share", "", ""))


def _rows(each: Prediction) -> list[tuple[Any, ...]]:
    lines = lines_of(each.features)[:_TOP]
    right = _right(each)
    place = (each.run, each.sample, each.name)
    if not lines:
        return [(*place, None, "nothing was found", None, right, "")]
    return [
        (*place, rank, line.answer, line.probability, right if rank == 1 else "", line.detail)
        for rank, line in enumerate(lines, start=1)
    ]


def _right(each: Prediction) -> str:
    """Return what would be right, as far as it is short."""
    told: Sequence[Any] = each.truth.get("labels") or each.truth.get("texts") or ()
    told = told or each.truth.get("classes") or each.truth.get("values") or ()
    return " / ".join(str(one) for one in told[:3])[:60]
