"""Datasets over HTTP: recognised, checked, described, kept under their digest; else refused."""

import asyncio
import errno
import gzip
import hashlib
import io
import shutil
import sys
import tarfile
import threading
import zipfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from mlscope.assets.artifacts import Artifact
from mlscope.assets.errors import CacheUnusable
from mlscope.assets.options import UnpackLimits
from mlscope.bus.bus import Bus
from mlscope.datasets.errors import FileBroken
from schemas.encoding.codec import parse
from schemas.manifest import DatasetManifest
from schemas.request import Evaluate
from services.gateway.live.feeds import Feeds
from services.gateway.routes import build_app
from services.gateway.sent import dataset_reading
from services.gateway.sent import files as sent_files
from services.gateway.sent.dataset_reading import answer_about
from services.gateway.sent.datasets import ending_of, manifest_of
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


def linked(name: str, target: str) -> bytes:
    """Return a tar archive of a symbolic link."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = tarfile.SYMTYPE, target
        archive.addfile(member)
    return body.getvalue()


def arrays_of(**arrays: Any) -> bytes:
    """Return a compressed .npz with arrays by their names."""
    body = io.BytesIO()
    np.savez_compressed(body, **arrays)
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
    return answer_about(folder / name, ending, folder / "scratch", allowed)


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


ZEROS = arrays_of(x=np.zeros(5000, np.uint8))
IDX = bytes((0, 0, 8, 3, 0, 0, 0, 10, 0, 0, 0, 28, 0, 0, 0, 28)) + bytes(7840)
MNIST = {"t10k-images-idx3-ubyte.gz": gzip.compress(IDX), "t10k-labels-idx1-ubyte.gz": b""}


@pytest.mark.parametrize(
    ("name", "body", "fault", "fix"),
    [
        ("a.zip", zip_of(PETS)[:-40], "not a zip file", "pack the dataset's folder again"),
        ("a.zip", zip_of({"a.jpg": bytes(5000)}), "more than 4000 bytes", "send fewer"),
        ("a.zip", zip_of({str(n): b"" for n in range(6)}), "more than 5 files", "send fewer"),
        ("a.zip", zip_of({"a.csv": b"x"}), "ending", "describe it in a manifest"),
        ("a.npy", array_of(np.array([{}], object)), "not a .npy file", "correct the file"),
        ("a.npz", arrays_of(u=IMAGES, v=IMAGES), "option samples must be", "correct the file"),
        ("a.npz", ZEROS, "more than 4000 bytes", "send fewer"),
        ("a.zip", zip_of({"x.npz": ZEROS}), "more than 4000 bytes", "send fewer"),
        ("a.zip", zip_of({"x.npy": ZEROS}), "more than 4000 bytes", "send fewer"),
        ("a.zip", zip_of(MNIST), "more than 4000 bytes", "send fewer"),
        (
            "a.zip",
            zip_of({f"{'x' * 300}.jpg": b""}),
            "has a name of more than 255 bytes",
            "pack the",
        ),
    ],
    ids=[
        "cut",
        "bytes",
        "files",
        "unknown layout",
        "pickled",
        "unknown array",
        "arrays",
        "arrays in it",
        "arrays called one",
        "packed pictures",
        "long name",
    ],
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
        ("a.npz", arrays_of(x=np.zeros(500_000, "u1")), "more than 400000 bytes; send fewer"),
        (
            "a.tar",
            tar_of({"a/c\udcff/1.jpg": b"a"}),
            "'c\\udcff' has a name that is not UTF-8: rename",
        ),
        ("a.tar", linked("a.jpg", "../c\udcff"), "a link to ../c?, outside its folder; pack"),
    ],
    ids=["csv", "outside", "bomb", "bomb of arrays", "not UTF-8", "link that is not UTF-8"],
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


def test_all_classes_are_counted_though_only_some_are_named(tmp_path: Path) -> None:
    facts = described(tmp_path, "a.zip", zip_of({f"{n:04}/1.jpg": b"" for n in range(1001)}))
    assert (len(facts["classes"]), facts["class_count"]) == (1000, 1001)
    about = manifest_of("a.zip", Artifact("a", "0" * 64, 1, 1, "id"), facts)["description"]
    assert about.startswith("1001 samples in 1001 classes: 0000, 0001")
    assert about.endswith(", 0009, ….")


@pytest.mark.parametrize(
    ("names", "note"),
    [
        (("cat/1.wav", "dog/2.wav"), "subfolders are classes only if they hold pictures"),
        (("1.jpg", "dog/2.jpg"), "no picture lies outside them"),
        (("1.txt", "2.txt"), ""),
        (("cat/1.jpg", "dog/2.jpg"), ""),
    ],
    ids=["sounds", "pictures beside folders", "flat", "classes"],
)
def test_subfolders_that_are_no_classes_are_noted(
    tmp_path: Path, names: tuple[str, ...], note: str
) -> None:
    facts = described(tmp_path, "a.zip", zip_of(dict.fromkeys(names, b"a")))
    assert note in facts["note"]
    assert bool(facts["note"]) is bool(note)


@pytest.mark.parametrize("wrapped", [None, CacheUnusable("/x", "full"), FileBroken("x", "full")])
def test_a_full_disk_is_no_fault_of_the_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrapped: Exception | None
) -> None:
    def full(*_: Any, **__: Any) -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            if wrapped is None:
                raise
            raise wrapped from error

    monkeypatch.setattr(dataset_reading, "open_dataset", full)
    assert described(tmp_path, "a.zip", zip_of(PETS)) == {"lacks_room": True}


def test_an_error_that_nobody_expects_has_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RecursionError

    monkeypatch.setattr(dataset_reading, "open_dataset", broken)
    told = described(tmp_path, "a.zip", zip_of(PETS))
    assert told["fault"] == "it cannot be read (RecursionError)"
    assert "describe it in a manifest" in told["fix"]


@pytest.fixture
def reader(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the process that looks into datasets by one on a full disk; return its variables."""
    folder = tmp_path_factory.mktemp("reader")
    program = folder / "python"
    program.write_text(f"#!/bin/sh\nenv > {folder}/env\necho '{{\"lacks_room\": true}}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return folder / "env"


def variables_in(file: Path) -> set[str]:
    """Return the names of the variables that the process wrote."""
    return {line.partition("=")[0] for line in file.read_text().splitlines()}


async def test_a_full_disk_is_503(web: httpx.AsyncClient, tmp_path: Path, reader: Path) -> None:
    answer = await send(web, zip_of(PETS), "pets.zip")
    assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
    assert "the gateway's disk is full; send the file later" in answer.json()["message"]
    assert names_in(tmp_path) == []


async def test_the_process_that_looks_into_datasets_has_no_settings(
    web: httpx.AsyncClient, reader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSCOPE_GATEWAY_TOKEN_FILE", "/run/keys/token")
    await send(web, zip_of(PETS), "pets.zip")
    variables = variables_in(reader)
    assert "PATH" in variables
    assert not [name for name in variables if name.startswith("MLSCOPE_")]


async def test_what_was_unpacked_is_removed_in_a_thread(
    web: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove, threads = shutil.rmtree, []

    def removing(*arguments: Any, **options: Any) -> None:
        threads.append(threading.current_thread())
        remove(*arguments, **options)

    monkeypatch.setattr(shutil, "rmtree", removing)
    assert (await send(web, zip_of(PETS), "pets.zip")).status_code == 201
    assert threads
    assert threading.main_thread() not in threads, "others would wait for it"


async def test_a_dataset_whose_first_bytes_trickle_is_refused(
    web: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_files, "GRACE_S", 0.05)

    async def silent() -> AsyncIterator[bytes]:
        yield b"PK"
        await asyncio.Event().wait()

    refused = await send(web, silent(), "pets.zip")
    assert (refused.status_code, refused.json()["found"]) == (408, "2 bytes within 0 s")
