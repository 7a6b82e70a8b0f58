"""`mlscope predict`: what a model answers to files, from an agent; nothing is timed."""

import argparse
import asyncio
import contextlib
import hashlib
import secrets
import sys
import tempfile
import zipfile
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli import exits
from cli.commands.asking import client_of
from cli.failures import Misused
from cli.output import Rows, width_of, write_json, write_rows
from cli.request import model_from, pairs_of
from cli.uploading import digest_of, opened_shelf
from mlscope.answers import lines_of
from mlscope.client.predicting import MOST_INLINE_BYTES, ONLY, Predicted, Upload

_ARRAYS = (".npy", ".npz")
_NO_ARRAYS = (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)
"""What reading arrays raises; TypeError is of a member that is no array."""
_COLUMNS = ("file", "rank", "answer", "probability", "detail")


def predict(arguments: argparse.Namespace) -> int:
    """Print what a model answers to each file; exit code 1 when one has no answer."""
    model = model_from(arguments)
    return asyncio.run(_predict(arguments, model))


async def _predict(arguments: argparse.Namespace, model: str | dict[str, Any]) -> int:
    async with _uploads(arguments) as uploads, client_of(arguments) as client:
        found = await client.predict(model, uploads, **_request(arguments))
    write_answers(found, arguments.top, arguments.output)
    return exits.FAILED if any(each.error for each in found) else exits.OK


def _request(arguments: argparse.Namespace) -> dict[str, Any]:
    fields = {
        "framework": arguments.framework or None,
        "agents": arguments.agent,
        "options": pairs_of("--option", arguments.option),
        "system": {"device": arguments.device} if arguments.device else {},
        "wait_s": arguments.wait,
    }
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def _record(each: Predicted) -> dict[str, Any]:
    told: dict[str, Any] = {"file": each.file, "features": list(each.features)}
    if each.error:
        told["error"] = each.error
    return told | {"evaluation": each.evaluation}


def write_answers(found: Sequence[Predicted], top: int, form: str) -> None:
    """Print answers; on a terminal they go on below where they are long, and are never cut."""
    if form == "json":
        write_json([_record(each) for each in found])
    else:
        write_rows(replace(rows_of(found, top), folds=width_of(sys.stdout) > 0), form)


def rows_of(found: Sequence[Predicted], top: int) -> Rows:
    """Return answers as rows, the best `top` of each file; a file without any says why."""
    rows: list[tuple[Any, ...]] = []
    for each in found:
        if each.error:
            rows.append((each.file, None, f"no answer: {each.error}", None, ""))
        lines = lines_of(each.features)
        if not lines and not each.error:
            rows.append((each.file, None, "nothing was found", None, ""))
        for rank, line in enumerate(lines[:top], start=1):
            rows.append((each.file, rank, line.answer, line.probability, line.detail))
    return Rows(_COLUMNS, tuple(rows), units=("", "", "", "share", ""))


@asynccontextmanager
async def _uploads(arguments: argparse.Namespace) -> AsyncIterator[list[Upload]]:
    """Lend the files as uploads; what is too large for a request is an artifact meanwhile."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await _upload(arguments, Path(each), stack) for each in arguments.files]


async def _upload(
    arguments: argparse.Namespace, path: Path, stack: contextlib.AsyncExitStack
) -> Upload:
    try:
        body = await asyncio.to_thread(path.read_bytes)
    except OSError as error:
        raise Misused(f"{path}: {error.strerror}") from None
    if path.suffix.lower() in _ARRAYS:
        return await _tensors(arguments, path, stack)
    if len(body) <= MOST_INLINE_BYTES:
        return Upload(str(path), body)
    shelf = await stack.enter_async_context(opened_shelf(arguments))
    address = await shelf.put(f"predict-{secrets.token_hex(8)}", path, lambda *_: None)
    stack.push_async_callback(shelf.rm, address)
    sha256 = hashlib.sha256(body).hexdigest()
    return Upload(str(path), address=address, sha256=f"sha256:{sha256}")


async def _tensors(
    arguments: argparse.Namespace, path: Path, stack: contextlib.AsyncExitStack
) -> Upload:
    """Put one sample's tensors up: of an .npy the model's one input, of an .npz several by name."""
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
        arrays: dict[str, Any] = {ONLY: found} if isinstance(found, np.ndarray) else dict(found)
        batched: dict[str, Any] = {name: array[np.newaxis] for name, array in arrays.items()}
    except _NO_ARRAYS as error:
        raise Misused(f"{path}: no {path.suffix} of numbers: {error}") from None
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mlscope-"))
    batch = Path(folder, "sample.npz")
    np.savez(batch, **batched)
    shelf = await stack.enter_async_context(opened_shelf(arguments))
    address = await shelf.put(f"predict-{secrets.token_hex(8)}.npz", batch, lambda *_: None)
    stack.push_async_callback(shelf.rm, address)
    sha256 = f"sha256:{digest_of(batch)}"
    return Upload(str(path), address=address, sha256=sha256, tensors=tuple(arrays))
