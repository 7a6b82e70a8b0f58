"""A folder of one's own as a dataset: described by what is in it, and sent along."""

import argparse
import base64
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.arguments import build_parser
from cli.failures import Misused
from cli.inputs import datasets
from cli.inputs.datasets import is_in_place, manifest_of_path, name_of, with_samples
from cli.inputs.request import request_from
from cli.inputs.uploads import members_of, write_archive
from schemas.manifest import DatasetManifest
from tests.mlscope.datasets.layouts import mnist_in, picture, written


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """See to it that no cluster is found, whatever runs on this machine."""
    for name in [each for each in os.environ if each.startswith("MLSCOPE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MLSCOPE_DATA_FOLDER", str(tmp_path / "data"))


def arguments(*words: str) -> argparse.Namespace:
    """Return the arguments of a run."""
    return build_parser().parse_args(["run", "tiny-cnn", *words])


def described(path: Path) -> DatasetManifest:
    """Return the manifest of a folder."""
    return DatasetManifest.model_validate(manifest_of_path(path, arguments()))


def test_a_few_pictures_travel_in_the_request(tmp_path: Path) -> None:
    written(tmp_path / "My Pets" / "cat" / "a.jpg", picture(1))
    written(tmp_path / "My Pets" / "dog" / "b.png", picture(2, "PNG"))
    made = described(tmp_path / "My Pets")
    assert made.name == "my-pets"
    assert [(each.labels, each.classes) for each in made.samples] == [
        (("cat",), (0,)),
        (("dog",), (1,)),
    ]
    assert base64.b64decode(made.samples[1].content) == picture(2, "PNG")


def test_pictures_in_the_request_keep_the_names_of_their_files(tmp_path: Path) -> None:
    written(tmp_path / "pets" / "cat" / "a.jpg", picture(1))
    written(tmp_path / "photos" / "IMG (1).jpg", picture(2))
    assert [sample.name for sample in described(tmp_path / "pets").samples] == ["cat/a.jpg"]
    assert [sample.name for sample in described(tmp_path / "photos").samples] == ["IMG (1).jpg"]
    assert own(tmp_path, samples=[{"path": "photos/IMG (1).jpg"}]).samples[0].name == "IMG (1).jpg"


def test_more_than_a_request_carries_is_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "pets" / "cat" / "a.jpg", picture(1))
    monkeypatch.setattr(datasets, "INLINE_BYTES", 100)
    source = described(tmp_path / "pets").source
    assert source is not None
    assert (source.reader, source.samples) == ("image_folder", 1)
    assert source.address == f"file:{tmp_path / 'pets'}"


def test_a_folder_below_one_that_is_allowed_is_read_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "pets" / "cat" / "a.jpg", picture(1))
    monkeypatch.setenv("MLSCOPE_DATASET_FOLDERS", f"/nowhere,{tmp_path}")
    made = described(tmp_path / "pets")
    assert made.source is not None
    assert made.source.address == f"file:{tmp_path / 'pets'}"
    assert not is_in_place(Path("/nowhere/../etc"), ("/nowhere",))


def test_a_layout_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    mnist_in(tmp_path / "digits")
    made = described(tmp_path / "digits")
    assert made.source is not None
    assert (made.source.reader, made.source.samples) == ("mnist", 5)
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    alone = described(tmp_path / "x.npy").source
    assert alone is not None
    assert (alone.reader, alone.samples) == ("npy", 3)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a.txt": b"text"}, "neither pictures nor a known layout"),
        ({"t10k-images-idx3-ubyte": b"\0\0\x08"}, "has no t10k-labels|is cut short"),
    ],
)
def test_unreadable_data_is_refused(tmp_path: Path, files: dict[str, bytes], words: str) -> None:
    for name, body in files.items():
        written(tmp_path / "d" / name, body)
    with pytest.raises(Misused, match=words):
        manifest_of_path(tmp_path / "d", arguments())


def test_a_name_is_no_folder_and_a_path_is_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "photos" / "cat" / "a.jpg", picture())
    monkeypatch.chdir(tmp_path)
    assert request_from(arguments("--dataset", "photos")).dataset == "photos"
    found = request_from(arguments("--dataset", "./photos")).dataset
    assert isinstance(found, DatasetManifest)
    with pytest.raises(Misused, match="no such file or folder"):
        request_from(arguments("--dataset", "./fotos"))


def test_the_same_files_give_the_same_archive(tmp_path: Path) -> None:
    for folder, names in (("one", ("a", "b/c")), ("two", ("b/c", "a"))):
        for name in names:
            written(tmp_path / folder / name, name)
    os.utime(tmp_path / "two" / "a", (1, 1))
    sums = {archived(tmp_path / each) for each in ("one", "two")}
    assert len(sums) == 1
    with tarfile.open(tmp_path / "one.tar") as archive:
        assert archive.getnames() == ["a", "b/c"]
    written(tmp_path / "two" / "a", "other")
    assert archived(tmp_path / "two") not in sums


def archived(folder: Path) -> str:
    """Return the digest of a folder's archive, which lies beside it."""
    return write_archive(dict(members_of(folder)), folder.with_suffix(".tar"))


def own(tmp_path: Path, **said: Any) -> DatasetManifest:
    """Return a manifest of one's own as it is sent."""
    manifest = {"kind": "dataset", "name": "own", **said}
    sent = with_samples(manifest, tmp_path / "own.yml", arguments())
    return DatasetManifest.model_validate(sent)


def test_files_beside_ones_own_manifest_go_along(tmp_path: Path) -> None:
    body = picture()
    written(tmp_path / "a.jpg", body)
    elsewhere = {"path": "photos/x.jpg", "sha256": "0" * 64}
    beside = {"path": "a.jpg", "sha256": "1" * 64, "labels": ["cat"]}
    sent = own(tmp_path, samples=[beside, elsewhere])
    assert base64.b64decode(sent.samples[0].content) == body
    assert (sent.samples[0].path, sent.samples[0].sha256) == ("", "1" * 64)
    assert sent.samples[1].path == "photos/x.jpg"


def test_a_source_beside_ones_own_manifest_goes_along(tmp_path: Path) -> None:
    written(tmp_path / "pets" / "cat" / "a.jpg", picture())
    source = {"address": "file:pets", "reader": "image_folder"}
    sent = own(tmp_path, source=source).source
    assert sent is not None
    assert sent.address == f"file:{tmp_path / 'pets'}"
    other = own(tmp_path, source={"address": "https://e.org/x.npz", "reader": "npz"}).source
    assert other is not None
    assert other.address == "https://e.org/x.npz"


def test_more_files_than_a_request_carries_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "a.jpg", picture())
    monkeypatch.setattr(datasets, "INLINE_BYTES", 100)
    with pytest.raises(Misused, match="give the folder as a source"):
        own(tmp_path, samples=[{"path": "a.jpg", "sha256": "1" * 64}])


@pytest.mark.parametrize(("path", "name"), [("My Pets/", "my-pets"), ("x.tar.gz", "x-tar")])
def test_names_are_those_of_manifests(path: str, name: str) -> None:
    assert name_of(Path(path)) == name


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"source": {"address": "file:OUT", "reader": "csv"}}, "source.address"),
        ({"samples": [{"content": ""}, {"path": "../out.txt"}]}, "samples.1.path"),
        ({"samples": [{"inputs": {"x": {"path": "OUT"}}}]}, "samples.0.inputs.x.path"),
    ],
)
def test_nothing_goes_from_outside_a_manifests_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], field: str
) -> None:
    sent = put(monkeypatch)
    written(tmp_path / "out.txt", "private")
    (tmp_path / "d").mkdir()
    told = json.loads(json.dumps(said).replace("OUT", str(tmp_path / "out.txt")))
    with pytest.raises(Misused, match=rf"own\.yml: {field}: .*out\.txt, allowed: a file below"):
        own(tmp_path / "d", **told)
    assert sent == []


def test_a_source_elsewhere_is_read_where_agents_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "shared" / "cat" / "a.jpg", picture())
    monkeypatch.setenv("MLSCOPE_DATASET_FOLDERS", str(tmp_path / "shared"))
    address = f"file:{tmp_path}/shared"
    found = own(tmp_path / "d", source={"address": address, "reader": "image_folder"}).source
    assert found is not None
    assert found.address == address


def test_a_source_with_a_link_out_of_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch)
    written(tmp_path / "blob", picture())
    (tmp_path / "pets" / "cat").mkdir(parents=True)
    (tmp_path / "pets" / "cat" / "a.jpg").symlink_to(tmp_path / "blob")
    with pytest.raises(Misused, match=r"leads out of .*cp -rL"):
        own(tmp_path, source={"address": "file:pets", "reader": "image_folder"})


def test_nothing_of_a_plan_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = put(monkeypatch)
    mnist_in(tmp_path / "digits")
    planned = build_parser().parse_args(["plan", "tiny-cnn"])
    source = {"address": "file:digits", "reader": "mnist"}
    inputs = {"x": {"path": "own.yml", "sha256": "1" * 64}}
    written(tmp_path / "own.yml", "x")
    made = with_samples({"source": source}, tmp_path / "own.yml", planned)
    assert made["source"]["address"] == f"file:{tmp_path / 'digits'}"
    assert manifest_of_path(tmp_path / "digits", planned)["source"]["address"].startswith("file:")
    (sample,) = with_samples({"samples": [{"inputs": inputs}]}, tmp_path / "own.yml", planned)[
        "samples"
    ]
    assert sample == {"inputs": inputs}
    assert sent == []


def put(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what is put up, in place of putting it."""
    found: list[Any] = []

    def archived(_: object, kind: str, members: dict[str, Path]) -> tuple[str, str]:
        found.append(sorted(members))
        return f"artifact://{kind}/whole.tar", "sha256:1"

    def alone(_: object, kind: str, path: Path) -> tuple[str, str]:
        found.append(path.name)
        return f"artifact://{kind}/{path.name}", "sha256:2"

    monkeypatch.setattr(datasets, "put_archive", archived)
    monkeypatch.setattr(datasets, "put_file", alone)
    return found


def test_files_of_several_inputs_go_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = put(monkeypatch)
    written(tmp_path / "a.bin", "x")
    inputs = {name: {"path": f"{name}.bin", "sha256": "1" * 64} for name in ("a", "b")}
    (sample,) = own(tmp_path, samples=[{"inputs": inputs}]).samples
    assert sent == ["a.bin"]
    paths = {name: each.path for name, each in sample.inputs.items()}
    assert paths == {"a": "artifact://datasets/a.bin", "b": "b.bin"}
    assert sample.inputs["a"].sha256 == "1" * 64


@pytest.mark.parametrize("options", [{"file": "path"}, {"inputs": {"x": {"file": "path"}}}])
def test_what_a_csv_names_goes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    sent = put(monkeypatch)
    for name in ("p/a.jpg", "p/unnamed.jpg", "names.txt", "../out.jpg"):
        written(tmp_path / "d" / name, "x")
    written(
        tmp_path / "d" / "rows.csv", "path,label\np/a.jpg,cat\nmissing.jpg,dog\n../out.jpg,cat\n"
    )
    options = {**options, "label": "label", "class_names": "names.txt"}
    source = {"address": "file:d/rows.csv", "reader": "csv", "options": options}
    found = own(tmp_path, source=source).source
    assert sent == [["names.txt", "p/a.jpg", "rows.csv"]]
    assert found is not None
    assert (found.archive, found.path) == (True, "rows.csv")


def test_questions_in_json_are_no_manifest(tmp_path: Path) -> None:
    path = tmp_path / "dev-v2.0.json"
    path.write_text('{"version": "v2.0", "data": [{"paragraphs": [{"context": "c", "qas": [')
    with path.open("a") as file:
        file.write('{"id": "1", "question": "q", "answers": [{"text": "c"}]}]}]}]}')
    dataset = request_from(arguments("--dataset", str(path))).dataset
    assert isinstance(dataset, DatasetManifest)
    assert dataset.source is not None
    assert dataset.source.reader == "squad"
