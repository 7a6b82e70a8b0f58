"""`mlscope predict`: prints a model's predictions for files; nothing is timed."""

import argparse
import asyncio
import hashlib
import secrets
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli import exits
from cli.failures import Misused
from cli.inputs.connection import client_of
from cli.inputs.request import model_from, pairs_of
from cli.inputs.uploads import digest_of, open_store
from cli.printing.output import Rows, width_of, write_json, write_rows
from mlscope.client.predicting import MOST_INLINE_BYTES, ONLY, Predicted, Upload
from mlscope.feature_text import feature_lines

_ARRAY_SUFFIXES = (".npy", ".npz")
_ARRAY_ERRORS = (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)
"""Errors of reading arrays; TypeError is raised for a member that is not an array."""
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
    }
    request = {name: value for name, value in fields.items() if value not in (None, [], {})}
    async with AsyncExitStack() as stack:
        # Large files are artifacts until the predictions have come.
        uploads = [await _upload(arguments, Path(file), stack) for file in arguments.files]
        client = await stack.enter_async_context(client_of(arguments))
        predictions = await client.predict(model, uploads, **request)
    write_predictions(predictions, arguments.top, arguments.output)
    has_errors = any(prediction.error for prediction in predictions)
    return exits.FAILED if has_errors else exits.OK


def write_predictions(predictions: Sequence[Predicted], top: int, form: str) -> None:
    """Print predictions: the best `top` of each file; JSON has all. A terminal wraps long texts."""
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


async def _upload(arguments: argparse.Namespace, path: Path, stack: AsyncExitStack) -> Upload:
    """Return a file as an upload; large files and arrays are stored until `stack` is closed."""
    try:
        body = await asyncio.to_thread(path.read_bytes)
    except OSError as error:
        raise Misused(f"{path}: {error.strerror}") from None
    if path.suffix.lower() in _ARRAY_SUFFIXES:
        return await _upload_tensors(arguments, path, stack)
    if len(body) <= MOST_INLINE_BYTES:
        return Upload(str(path), body)
    store = await stack.enter_async_context(open_store(arguments))
    address = await store.put(f"predict-{secrets.token_hex(8)}", path, lambda *_: None)
    stack.push_async_callback(store.rm, address)
    sha256 = hashlib.sha256(body).hexdigest()
    return Upload(str(path), address=address, sha256=f"sha256:{sha256}")


async def _upload_tensors(
    arguments: argparse.Namespace, path: Path, stack: AsyncExitStack
) -> Upload:
    """Store the tensors of one sample: the only input from an .npy, named inputs from an .npz."""
    import numpy as np

    try:
        content = np.load(path, allow_pickle=False)
        is_single = isinstance(content, np.ndarray)
        arrays: dict[str, Any] = {ONLY: content} if is_single else dict(content)
        batched: dict[str, Any] = {name: array[np.newaxis] for name, array in arrays.items()}
    except _ARRAY_ERRORS as error:
        raise Misused(f"{path}: no {path.suffix} of numbers: {error}") from None
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mlscope-"))
    batch = Path(folder, "sample.npz")
    np.savez(batch, **batched)
    store = await stack.enter_async_context(open_store(arguments))
    address = await store.put(f"predict-{secrets.token_hex(8)}.npz", batch, lambda *_: None)
    stack.push_async_callback(store.rm, address)
    sha256 = f"sha256:{digest_of(batch)}"
    return Upload(str(path), address=address, sha256=sha256, tensors=tuple(arrays))
