"""Files to predict: small ones in the request, others stored until their predictions are here."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.failures import Misused
from cli.inputs import predicted_files
from cli.inputs.predicted_files import upload_of
from mlscope.client.predicting import Upload
from tests.cli.in_process import arguments

PREDICT = arguments("predict", "tiny", "x")


class Store:
    """What is stored now, by address."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}

    async def put(self, name: str, path: Path, _: object) -> str:
        """Store a file."""
        self.bodies[f"artifact://{name}"] = await asyncio.to_thread(path.read_bytes)
        return f"artifact://{name}"

    async def rm(self, address: str) -> None:
        """Remove a file."""
        del self.bodies[address]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    store = Store()

    @asynccontextmanager
    async def open_here(_: object) -> AsyncGenerator[Store, None]:
        yield store

    monkeypatch.setattr(predicted_files, "open_store", open_here)
    return store


async def test_a_small_file_travels_in_the_request(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(b"abc")
    async with AsyncExitStack() as stack:
        assert await upload_of(PREDICT, path, stack) == Upload(str(path), b"abc")
    assert store.bodies == {}


async def test_a_large_file_is_stored_until_its_predictions_are_here(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predicted_files, "MOST_INLINE_BYTES", 2)
    path = tmp_path / "a.jpg"
    path.write_bytes(b"abc")
    async with AsyncExitStack() as stack:
        upload = await upload_of(PREDICT, path, stack)
        assert store.bodies == {upload.address: b"abc"}
    assert store.bodies == {}
    assert (upload.name, upload.body) == (str(path), b"")
    assert upload.sha256 == f"sha256:{hashlib.sha256(b'abc').hexdigest()}"


@pytest.mark.parametrize(
    ("name", "arrays", "shapes"),
    [
        ("x.npy", {"x": np.zeros((2, 3))}, {"x": (1, 2, 3)}),
        ("x.NPZ", {"a": np.zeros(4), "b": np.float32(7)}, {"a": (1, 4), "b": (1,)}),
    ],
)
async def test_arrays_are_stored_as_a_batch_of_one_sample(
    tmp_path: Path,
    store: Store,
    name: str,
    arrays: dict[str, Any],
    shapes: dict[str, tuple[int, ...]],
) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        np.savez(file, **arrays) if len(arrays) > 1 else np.save(file, arrays["x"])
    async with AsyncExitStack() as stack:
        upload = await upload_of(PREDICT, path, stack)
        (body,) = store.bodies.values()
    assert upload.sha256 == f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert upload.tensors == tuple(shapes)
    (tmp_path / "sent.npz").write_bytes(body)
    sent = np.load(tmp_path / "sent.npz")
    assert [sent[key].shape for key in sent] == list(shapes.values())
    assert store.bodies == {}


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("x.npy", b"", "no .npy of numbers"),
        ("x.npy", b"\x93NUMPY\x01\x00v\x00{'descr': 'O'", "no .npy of numbers"),
        ("x.npz", b"PK\x03\x04 torn", "no .npz of numbers"),
        ("none.jpg", None, "No such file or directory"),
    ],
)
async def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, store: Store, name: str, body: bytes | None, said: str
) -> None:
    path = tmp_path / name
    if body is not None:
        path.write_bytes(body)
    async with AsyncExitStack() as stack:
        with pytest.raises(Misused) as refused:
            await upload_of(PREDICT, path, stack)
    assert str(refused.value).startswith(f"{path}: {said}")
    assert store.bodies == {}
