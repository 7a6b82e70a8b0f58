"""The files of `mlscope predict` as uploads: in the request, or stored until they are predicted."""

import argparse
import asyncio
import hashlib
import secrets
import tempfile
import zipfile
import zlib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from cli.failures import Misused
from cli.inputs.uploads import digest_of, open_store
from mlscope.client.predicting import MOST_INLINE_BYTES, ONLY, Upload

_ARRAY_SUFFIXES = (".npy", ".npz")
_ARRAY_ERRORS = (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)
"""Errors of reading arrays; TypeError is raised for a member that is not an array."""


async def upload_of(arguments: argparse.Namespace, path: Path, stack: AsyncExitStack) -> Upload:
    """Return the file at `path` as an upload; large files and arrays are stored for it.

    They are stored in the cluster that `arguments` name, until `stack` is closed. Raises Misused,
    BusError.
    """
    try:
        body = await asyncio.to_thread(path.read_bytes)
    except OSError as error:
        raise Misused(f"{path}: {error.strerror}") from None
    if path.suffix.lower() in _ARRAY_SUFFIXES:
        return await _upload_tensors(arguments, path, stack)
    if len(body) <= MOST_INLINE_BYTES:
        return Upload(str(path), body)
    address = await _put(arguments, f"predict-{secrets.token_hex(8)}", path, stack)
    sha256 = hashlib.sha256(body).hexdigest()
    return Upload(str(path), address=address, sha256=f"sha256:{sha256}")


async def _put(arguments: argparse.Namespace, name: str, path: Path, stack: AsyncExitStack) -> str:
    """Store a file until `stack` is closed, and return its address."""
    store = await stack.enter_async_context(open_store(arguments))
    address = await store.put(name, path, lambda *_: None)
    stack.push_async_callback(store.rm, address)
    return address


async def _upload_tensors(
    arguments: argparse.Namespace, path: Path, stack: AsyncExitStack
) -> Upload:
    """Store the tensors of one sample: the only input from an .npy, named inputs from an .npz."""
    import numpy as np

    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            is_single = isinstance(content, np.ndarray)
            arrays: dict[str, Any] = {ONLY: content} if is_single else dict(content)
        batched: dict[str, Any] = {name: array[np.newaxis] for name, array in arrays.items()}
    except _ARRAY_ERRORS as error:
        raise Misused(f"{path}: no {path.suffix} of numbers: {error}") from None
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="mlscope-"))
    batch = Path(folder, "sample.npz")
    np.savez(batch, **batched)
    address = await _put(arguments, f"predict-{secrets.token_hex(8)}.npz", batch, stack)
    sha256 = f"sha256:{digest_of(batch)}"
    return Upload(str(path), address=address, sha256=sha256, tensors=tuple(arrays))
