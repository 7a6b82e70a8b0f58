"""Datasets over HTTP: recognised, checked, described, kept under their digest; else refused."""

import hashlib
import io
import tarfile
import zipfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from mlscope.assets.errors import FetchError
from mlscope.assets.options import UnpackLimits
from mlscope.bus.bus import Bus
from mlscope.datasets.errors import DatasetError
from schemas.encoding.codec import parse
from schemas.manifest import DatasetManifest
from schemas.request import Evaluate
from services.gateway.dataset_reading import fault_of, looked_into
from services.gateway.live.feeds import Feeds
from services.gateway.routes import build_app
from services.gateway.sent_datasets import ending_of
from tests.services.gateway.rest.test_files import OCTETS, names_in
from tests.services.gateway.sent_files import kept_in

PETS = {"pets/cat/1.jpg": b"a", "pets/cat/2.jpg": b"b", "pets/dog/1.png": b"c"}


@pytest.fixture
async def web(bus: Bus, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Lend a client of a gateway that keeps files of up to 100 kB in `tmp_path`."""
    app = build_app(bus, Feeds(bus, limit=1), most_bytes=10_000)
    app.state.sent_files = kept_in(tmp_path, 100_000)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
        yield web


def zip_of(members: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a .zip with files by their names."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return body.getvalue()


def tar_of(members: Mapping[str, bytes], mode: Any = "w") -> bytes:
    """Return a tar archive, in a `mode` of `tarfile`, with files by their names."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode=mode) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return body.getvalue()


def arrays_of(**arrays: Any) -> bytes:
    """Return a .npz with arrays by their names."""
    body = io.BytesIO()
    np.savez(body, **arrays)
    return body.getvalue()


def array_of(values: Any) -> bytes:
    """Return a .npy."""
    body = io.BytesIO()
    np.save(body, values)
    return body.getvalue()


async def send(web: httpx.AsyncClient, body: Any, name: str) -> httpx.Response:
    """Send a dataset."""
    return await web.post("/api/datasets", params={"name": name}, content=body, headers=OCTETS)


async def test_a_zipped_folder_of_classes_is_a_dataset_for_a_request(
    web: httpx.AsyncClient, tmp_path: Path
) -> None:
    body = zip_of({**PETS, "__MACOSX/pets/._1.jpg": b"x", ".DS_Store": b"x"})
    sha256 = hashlib.sha256(body).hexdigest()
    answer = await send(web, body, "My pets (1).zip")
    told = answer.json()
    assert answer.status_code == 201, told
    assert (told["samples"], told["classes"], told["reader"]) == (3, ["cat", "dog"], "image_folder")
    manifest = parse(Evaluate, {"model": "m", "dataset": told["manifest"]}).dataset
    assert isinstance(manifest, DatasetManifest)
    assert manifest.source is not None
    assert manifest.name == told["name"] == f"my-pets-1-{sha256[:12]}"
    assert manifest.description == "3 samples in 2 classes: cat, dog."
    assert (manifest.source.path, manifest.source.archive) == ("pets", True)
    assert manifest.source.checksum == f"sha256:{sha256}"
    assert names_in(tmp_path) == [f"{sha256}.zip"]
    assert told["text"].startswith(f"kind: dataset\nname: {manifest.name}\n")


IMAGES = np.zeros((5, 4), np.float32)


def described(folder: Path, name: str, body: bytes, **limits: int) -> dict[str, Any]:
    """Return what the process that looks into a dataset tells of one, within `limits`."""
    (folder / name).write_bytes(body)
    (folder / "scratch").mkdir()
    ending, allowed = ending_of(body[:512], name), UnpackLimits(**limits)
    try:
        return looked_into(folder / name, ending, folder / "scratch", allowed)
    except (FetchError, DatasetError) as error:
        return dict(fault_of(error))


@pytest.mark.parametrize(
    ("name", "body", "reader", "modality", "samples", "path"),
    [
        ("a.npy", array_of(IMAGES), "npy", "tensor", 5, ""),
        ("a.npz", arrays_of(x=IMAGES, y=np.arange(5)), "npz", "tensor", 5, ""),
        ("a.zip", zip_of({"x.npy": array_of(IMAGES)}), "npy", "tensor", 5, "x.npy"),
        ("a.zip", zip_of({"1.npy": b"a", "2.npy": b"b"}), "npy", "tensor", 2, ""),
        ("a.zip", zip_of({"in/1.jpg": b"a", "in/2.jpg": b"b"}), "image_folder", "image", 2, "in"),
        ("a.tar.gz", tar_of(PETS, "w:gz"), "image_folder", "image", 3, "pets"),
        ("a.tar", tar_of({"s/1.wav": b"a", "s/2.wav": b"b"}), "files", "audio", 2, "s"),
        ("a", tar_of({"1.txt": b"a", "2.txt": b"b"}), "files", "text", 2, ""),
    ],
    ids=["npy", "npz", "zipped npy", "npy files", "flat", "classes", "sounds", "texts"],
)
def test_what_a_reader_knows_is_recognised(
    tmp_path: Path, name: str, body: bytes, reader: str, modality: str, samples: int, path: str
) -> None:
    facts = described(tmp_path, name, body)
    told = (facts["reader"], facts["modality"], facts["samples"], facts["path"])
    assert told == (reader, modality, samples, path)
    assert facts["archive"] is (ending_of(body[:512], name) in (".zip", ".tar"))


@pytest.mark.parametrize(
    ("name", "body", "fault", "fix"),
    [
        ("a.zip", zip_of(PETS)[:-40], "not a zip file", "pack the dataset's folder again"),
        ("a.zip", zip_of({"a.jpg": bytes(5000)}), "more than 4000 bytes", "send fewer"),
        ("a.zip", zip_of({str(n): b"" for n in range(6)}), "more than 5 files", "send fewer"),
        ("a.zip", zip_of({"a.csv": b"x"}), "ending", "describe it in a manifest"),
        ("a.npy", array_of(np.array([{}], object)), "not a .npy file", "correct the file"),
        ("a.npz", arrays_of(u=IMAGES, v=IMAGES), "option samples must be", "correct the file"),
    ],
    ids=["cut", "bytes", "files", "unknown layout", "pickled", "unknown array"],
)
def test_what_no_reader_knows_has_a_remedy(
    tmp_path: Path, name: str, body: bytes, fault: str, fix: str
) -> None:
    told = described(tmp_path, name, body, max_bytes=4000, max_files=5)
    assert fault in told["fault"]
    assert fix in told["fix"]


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("a.csv", b"file,label\n1.jpg,0\n", "begins with b'file,lab'; send a .zip"),
        ("a.zip", zip_of({"../out.jpg": b"a"}), "'../out.jpg' leads outside its folder; pack"),
        ("a.zip", zip_of({"a.jpg": bytes(500_000)}), "more than 400000 bytes; send fewer"),
    ],
    ids=["csv", "outside", "bomb"],
)
async def test_what_is_no_dataset_is_refused_with_a_remedy(
    web: httpx.AsyncClient, tmp_path: Path, name: str, body: bytes, said: str
) -> None:
    answer = await send(web, body, name)
    refused = answer.json()
    assert (answer.status_code, refused["field"]) == (400, "body"), refused
    assert said in refused["message"]
    assert refused["allowed"].startswith("a .zip, a .tar")
    assert names_in(tmp_path) == []


async def test_what_is_no_dataset_is_not_read_to_its_end(web: httpx.AsyncClient) -> None:
    read = []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            read.append(1)
            yield b"GIF89a" * 100

    assert (await send(web, endless(), "a.gif")).status_code == 400
    assert len(read) == 1


async def test_an_empty_body_is_refused(web: httpx.AsyncClient) -> None:
    async def empty() -> AsyncIterator[bytes]:
        for chunk in list[bytes]():
            yield chunk

    refused = (await send(web, empty(), "a.zip")).json()
    assert refused["message"].startswith("body: 0 bytes; send a .zip")


async def test_a_dataset_has_the_limits_of_a_file(web: httpx.AsyncClient) -> None:
    refused = await send(web, tar_of({"a.jpg": bytes(100_001)}), "a.tar")
    assert refused.status_code == 413
    assert "MLSCOPE_MAX_UPLOAD_BYTES" in refused.json()["message"]
