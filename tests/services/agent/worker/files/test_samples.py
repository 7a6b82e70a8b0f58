"""Samples of files and sources: the first held, the others read; a bad one lost alone."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.datasets.dataset import LazySequence
from mlscope.datasets.errors import BadRecord
from mlscope.datasets.truth import Truth
from schemas.manifest import DatasetManifest, Sample, SampleFile, Source
from services.agent.errors import (
    ChecksumMissing,
    DatasetUnusable,
    FetchFailed,
    FileMissing,
    PathOutsideManifests,
    WrongChecksum,
)
from services.agent.link.fetched_file import FetchedFile
from services.agent.worker.files.datasets import load_samples, truths_of
from services.agent.worker.files.model_files import AssetFolder
from services.agent.worker.files.samples import CachedSamples, first_readable


def digest(body: bytes) -> str:
    """Return a file's checksum."""
    return hashlib.sha256(body).hexdigest()


def folder_of(root: Path, **files: bytes) -> AssetFolder:
    """Return a manifests folder with files of datasets."""
    (root / "datasets").mkdir(exist_ok=True)
    for name, body in files.items():
        (root / "datasets" / name).write_bytes(body)
    return AssetFolder(root, "datasets", scratch=root)


def dataset_of(*samples: Sample, **more: Any) -> DatasetManifest:
    """Return a dataset."""
    return DatasetManifest(name="d", samples=samples, **more)


def source_of(root: Path, **said: Any) -> DatasetManifest:
    """Return a dataset of eight rows of numbers, the third of them NaN."""
    numbers = np.arange(16, dtype=np.float32).reshape(8, 2)
    numbers[2, 0] = np.nan
    np.savez(root / "datasets" / "x.npz", samples=numbers, labels=np.arange(8) % 3)
    given = {"address": "file:x.npz", "reader": "npz", **said}
    given.setdefault("checksum", digest((root / "datasets" / "x.npz").read_bytes()))
    return dataset_of(source=Source(**given))


def test_listed_files_with_their_truths(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, a=b"A", b=b"B")
    labelled = Sample(path="a", sha256=digest(b"A"), labels=("cat",), classes=(281, 282))
    samples = load_samples(dataset_of(labelled, Sample(path="b", sha256=digest(b"B"))), folder)
    assert list(samples) == [b"A", b"B"]
    truth, none = truths_of(samples)
    assert isinstance(truth, Truth)
    assert (truth.name, truth.labels, truth.classes) == ("a", ("cat",), (281, 282))
    assert none is None
    assert folder.checksums == {"a": f"sha256:{digest(b'A')}", "b": f"sha256:{digest(b'B')}"}


def test_what_a_request_brings_itself(tmp_path: Path) -> None:
    content = base64.b64encode(b"picture").decode()
    held = load_samples(dataset_of(Sample(content=content)), folder_of(tmp_path))
    assert list(held) == [b"picture"]
    wrong = dataset_of(Sample(content=content, sha256=digest(b"other")))
    with pytest.raises(WrongChecksum):
        load_samples(wrong, AssetFolder(tmp_path, "datasets"))
    with pytest.raises(DatasetUnusable, match="not valid base64"):
        load_samples(dataset_of(Sample(content="#")), AssetFolder(tmp_path, "datasets"))


def test_a_sample_has_the_name_that_its_manifest_gives(tmp_path: Path) -> None:
    content = base64.b64encode(b"picture").decode()
    sent = Sample(content=content, name="a.jpg")
    samples = load_samples(dataset_of(sent, Sample(content=content)), folder_of(tmp_path))
    assert [truth and truth.name for truth in truths_of(samples)] == ["a.jpg", None]


@pytest.mark.parametrize("name", ["a.jpg", ""])
def test_a_sample_without_a_name_is_written_without_one(name: str) -> None:
    assert ("name" in Sample(content="", name=name).model_dump()) == bool(name)


def test_a_sample_of_several_inputs(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, a=b"A", b=b"B")
    files = {"x": SampleFile(path="a", sha256=digest(b"A")), "y": SampleFile(path="b", sha256="0")}
    with pytest.raises(WrongChecksum, match="asset b"):
        load_samples(dataset_of(Sample(inputs=files)), folder)
    files["y"] = SampleFile(path="b", sha256=digest(b"B"))
    assert load_samples(dataset_of(Sample(inputs=files)), folder)[0] == {"x": b"A", "y": b"B"}


def test_what_an_address_leads_to(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"A")
    address = "pypi://a==1/b.png"
    brought = {address: FetchedFile(tmp_path / "cache", digest(b"A"))}
    sample = Sample(path=address, sha256=digest(b"A"))
    folder = AssetFolder(tmp_path, "datasets", brought)
    assert load_samples(dataset_of(sample), folder)[0] == b"A"
    with pytest.raises(FileMissing, match="was not fetched"):
        load_samples(dataset_of(sample), AssetFolder(tmp_path, "datasets"))


def test_a_source_and_its_bad_sample(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    samples = load_samples(source_of(tmp_path, options={"classes": 3}, samples=8), folder)
    assert samples[7].tolist() == [14, 15]
    assert [truth.classes[0] for truth in truths_of(samples) if truth] == [0, 1, 2] * 2 + [0, 1]
    with pytest.raises(BadRecord, match=r"x\.npz: record 2: sample is 'NaN'"):
        samples[2]
    assert list(folder.checksums) == ["x.npz"]


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ({"samples": 9}, DatasetUnusable, "has 8 samples; its manifest says 9"),
        ({"reader": "npx"}, DatasetUnusable, "no reader 'npx'; known: cifar10"),
        ({"options": {"colour": 1}}, DatasetUnusable, "option colour"),
        ({"checksum": "0" * 64}, WrongChecksum, "expected 0000"),
        ({"checksum": ""}, ChecksumMissing, "no checksum"),
        ({"address": "file:../../x"}, PathOutsideManifests, "leads out"),
        ({"address": "file:none.npz"}, FileMissing, "no such file"),
        ({"address": "https://e.org/x.npz"}, FileMissing, "was not fetched"),
        ({"address": "ftp://e.org/x"}, FetchFailed, "scheme"),
    ],
)
def test_a_source_that_is_not_what_was_said(
    tmp_path: Path, said: dict[str, Any], error: type[Exception], words: str
) -> None:
    folder = folder_of(tmp_path)
    with pytest.raises(error, match=words):
        load_samples(source_of(tmp_path, **said), folder)


def test_the_first_so_many(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    samples = load_samples(source_of(tmp_path, most_samples=2), folder)
    assert (len(samples), len(truths_of(samples))) == (2, 2)


def test_only_the_first_samples_are_held() -> None:
    read: list[int] = []

    def sample(index: int) -> bytes:
        read.append(index)
        return bytes(100)

    samples = CachedSamples(1000, sample, (), most_bytes=550)
    assert (samples.cached, read) == (5, [0, 1, 2, 3, 4, 5])
    read.clear()
    assert [len(samples[index]) for index in (0, 4, 5, 999, 5)] == [100] * 5
    assert read == [5, 999, 5]


def test_a_file_altered_while_in_use_is_lost_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path, a=b"A" * 40, b=b"B" * 40)
    files = [Sample(path=name, sha256=digest(name.upper().encode() * 40)) for name in "ab"]
    monkeypatch.setattr(CachedSamples.__init__, "__defaults__", (50,))
    samples = load_samples(dataset_of(*files), folder)
    (tmp_path / "datasets" / "b").write_bytes(b"C" * 40)
    assert samples[0] == b"A" * 40
    with pytest.raises(BadRecord, match="b: record 1: was altered"):
        samples[1]


def test_the_first_that_can_be_read() -> None:
    def sample(index: int) -> int:
        if index < 3:
            raise BadRecord("f", index, "is cut")
        return index

    assert first_readable("d", CachedSamples(5, sample, ())) == 3
    with pytest.raises(DatasetUnusable, match="dataset d: f: record 0: is cut; nor the 2 after it"):
        first_readable("d", CachedSamples(3, sample, ()))


def test_a_sample_is_named_where_its_name_is_known() -> None:
    def truth(index: int) -> Truth | None:
        if index == 2:
            raise BadRecord("f", 2, "is cut")
        return Truth("a.jpg") if index else None

    samples = CachedSamples(3, bytes, LazySequence(3, truth))
    assert [samples.name_of(index) for index in range(3)] == ["", "a.jpg", ""]
    assert CachedSamples(3, bytes, ()).name_of(1) == ""


def test_made_samples_have_no_truths() -> None:
    assert len(truths_of(np.zeros((3, 2)))) == 0  # type: ignore[arg-type]
