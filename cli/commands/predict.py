"""`mlscope predict`: prints a model's predictions for files; nothing is timed."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli import exits
from cli.inputs.connection import client_of
from cli.inputs.predicted_files import upload_of
from cli.inputs.request import model_from, pairs_of
from cli.printing.output import Rows, width_of, write_json, write_rows
from mlscope.client.predicting import Predicted
from mlscope.texts.features import feature_lines

_COLUMNS = ("file", "rank", "answer", "probability", "detail")


def predict(arguments: argparse.Namespace) -> int:
    """Print a model's predictions for each file; exit code 1 when a file has none."""
    model = model_from(arguments)
    return asyncio.run(_predict(arguments, model))


async def _predict(arguments: argparse.Namespace, model: str | dict[str, Any]) -> int:
    fields = {
        "framework": arguments.framework or None,
        "agents": arguments.agent,
        "options": pairs_of("--option", arguments.option),
        "system": {"device": arguments.device} if arguments.device else {},
        "wait_s": arguments.wait,
        "visibility": arguments.visibility,
    }
    request = {name: value for name, value in fields.items() if value not in (None, [], {})}
    async with AsyncExitStack() as stack:
        # Large files are artifacts until the predictions have come.
        uploads = [await upload_of(arguments, Path(file), stack) for file in arguments.files]
        client = await stack.enter_async_context(client_of(arguments))
        predictions = await client.predict(model, uploads, **request)
    write_predictions(predictions, arguments.top, arguments.output)
    has_errors = any(prediction.error for prediction in predictions)
    return exits.FAILED if has_errors else exits.OK


def write_predictions(predictions: Sequence[Predicted], top: int, form: str) -> None:
    """Print `predictions` in a `form`: json, which has all, or another form of rows.

    Rows are the best `top` of each file; a terminal wraps long texts.
    """
    if form != "json":
        rows = prediction_rows(predictions, top)
        write_rows(replace(rows, folds=width_of(sys.stdout) > 0), form)
        return
    records: list[dict[str, Any]] = []
    for prediction in predictions:
        error = {"error": prediction.error} if prediction.error else {}
        records.append(
            {
                "file": prediction.file,
                "features": list(prediction.features),
                **error,
                "evaluation": prediction.evaluation,
            }
        )
    write_json(records)


def prediction_rows(predictions: Sequence[Predicted], top: int) -> Rows:
    """Return the best `top` predictions of each file as rows, or why there are none."""
    rows: list[tuple[Any, ...]] = []
    for prediction in predictions:
        if prediction.error:
            rows.append((prediction.file, None, f"no answer: {prediction.error}", None, ""))
        lines = feature_lines(prediction.features)
        if not lines and not prediction.error:
            rows.append((prediction.file, None, "nothing was found", None, ""))
        for rank, line in enumerate(lines[:top], start=1):
            rows.append((prediction.file, rank, line.answer, line.probability, line.detail))
    return Rows(_COLUMNS, tuple(rows), units=("", "", "", "share", ""))
