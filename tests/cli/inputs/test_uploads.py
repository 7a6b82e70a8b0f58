"""Files sent to where agents find them: once for a content, and removed only where they may be."""

import asyncio
import hashlib
import tarfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.failures import Misused
from cli.inputs import uploads
from cli.inputs.uploads import UploadStore, files_stay, members_of, put_archive, put_file
from mlscope.client.errors import NoCluster
from tests.cli.in_process import arguments

RUN = arguments("run", "tiny")


class Artifacts:
    """A store in memory: names, in the order in which they were sent."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    async def ls(self) -> list[Any]:
        """List all."""
        return [SimpleNamespace(name=name) for name in self.names]

    async def put(self, name: str, path: Path, progress: Any) -> Any:
        """Store a file."""
        size_bytes = len(await asyncio.to_thread(path.read_bytes))
        progress(size_bytes, size_bytes)
        self.names.append(name)
        return SimpleNamespace(name=name)

    async def rm(self, name: str) -> None:
        """Remove a file."""
        self.names.remove(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"weights")
    return path


SUM = hashlib.sha256(b"weights").hexdigest()


async def test_an_artifact_of_this_name_is_not_sent_again(file: Path) -> None:
    artifacts = Artifacts("models/1")
    store = UploadStore(artifacts, is_permanent=True)  # type: ignore[arg-type]
    assert await store.put("models/1", file, lambda *_: None) == "artifact://models/1"
    assert await store.put("models/2", file, lambda *_: None) == "artifact://models/2"
    assert artifacts.names == ["models/1", "models/2"]
    await store.rm("artifact://models/1")
    assert artifacts.names == ["models/2"]


async def test_an_upload_is_named_by_its_content_and_never_removed(file: Path) -> None:
    artifacts = Artifacts()
    store = UploadStore(artifacts, is_permanent=False)  # type: ignore[arg-type]
    address = await store.put("models/1", file, lambda *_: None)
    assert address.endswith(f"{SUM}.onnx")
    await store.rm(address)
    assert [f"artifact://{name}" for name in artifacts.names] == [address]


@pytest.fixture
def permanent(monkeypatch: pytest.MonkeyPatch) -> Artifacts:
    """Lend what a store has that commands open."""
    artifacts = Artifacts()

    @asynccontextmanager
    async def open_here(_: object) -> AsyncGenerator[UploadStore, None]:
        yield UploadStore(artifacts, is_permanent=True)  # type: ignore[arg-type]

    monkeypatch.setattr(uploads, "open_store", open_here)
    return artifacts


@pytest.mark.parametrize(
    ("name", "suffix"), [("m.onnx", ".onnx"), ("m", ""), ("m.a b", ""), ("m.tar.gz", ".gz")]
)
def test_a_file_is_named_by_its_sum_and_its_plain_suffix(
    tmp_path: Path, permanent: Artifacts, name: str, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(b"weights")
    sent = put_file(RUN, "models", tmp_path / name)
    assert sent == (f"artifact://models/{SUM}{suffix}", f"sha256:{SUM}")
    assert capsys.readouterr().err == f"sent {name}, 7 B\n"
    assert put_file(RUN, "models", tmp_path / name) == sent
    assert capsys.readouterr().err == ""
    assert permanent.names == [f"models/{SUM}{suffix}"]


def test_a_quiet_run_does_not_say_what_it_sends(
    file: Path, permanent: Artifacts, capsys: pytest.CaptureFixture[str]
) -> None:
    put_archive(arguments("run", "tiny", "--quiet"), "models", {"m.onnx": file})
    assert capsys.readouterr().err == ""
    put_archive(RUN, "datasets", {"b.jpg": file})
    assert capsys.readouterr().err == "sent the dataset's files, 10.2 kB\n"


def test_files_of_an_archive_have_the_names_that_they_are_asked_for_by(
    file: Path, permanent: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    async def put(_: object, __: str, path: Path, ___: object) -> Any:
        with tarfile.open(path) as archive:
            names.extend(archive.getnames())
        return SimpleNamespace(name="sent")

    monkeypatch.setattr(Artifacts, "put", put)
    address, checksum = put_archive(RUN, "models", {"b/c": file, "a": file})
    assert (address, names) == ("artifact://sent", ["a", "b/c"])
    assert checksum.startswith("sha256:")
    assert permanent.names == []


def test_a_folder_s_members_are_named_below_it(tmp_path: Path, file: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_text("x")
    assert dict(members_of(tmp_path / "d")) == {"e/f": tmp_path / "d" / "e" / "f"}
    assert dict(members_of(file)) == {"": file}


def test_a_link_out_of_a_folder_is_refused_with_a_way_to_copy(tmp_path: Path, file: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "linked").symlink_to(file)
    with pytest.raises(Misused, match=r"linked.*; send a copy without links: cp -rL \S+/d COPY"):
        dict(members_of(tmp_path / "d"))


def test_without_a_cluster_there_is_nowhere_to_send_to(
    file: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLSCOPE_NATS_URL", raising=False)
    monkeypatch.setenv("MLSCOPE_DATA", str(data_folder))
    with pytest.raises(NoCluster, match="mlscope up --detach"):
        put_file(RUN, "models", file)


def test_files_of_a_plan_stay() -> None:
    assert not files_stay(RUN)
    assert files_stay(arguments("plan", "tiny"))
