"""Files below the manifests folder."""

import hashlib
from pathlib import Path

import pytest

from schemas.manifest import Assets
from services.agent.errors import (
    ChecksumMissing,
    FetchFailed,
    FileMissing,
    PathOutsideManifests,
    WrongChecksum,
)
from services.agent.fetching.fetching import model_requests
from services.agent.link.fetched_file import FetchedFile
from services.agent.worker.files.model_files import AssetFolder, ModelFiles
from tests.services.agent.builders import model_named

BODY = b"cat\ndog\n"
SUM = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> AssetFolder:
    (tmp_path / "models" / "m").mkdir(parents=True)
    (tmp_path / "models" / "m" / "labels.txt").write_bytes(BODY)
    (tmp_path.parent / "secret.txt").write_bytes(BODY)
    return AssetFolder(tmp_path, "models")


def files(folder: AssetFolder, **assets: object) -> ModelFiles:
    model = model_named("identity")
    return ModelFiles(folder, model.model_copy(update={"model": Assets.model_validate(assets)}))


@pytest.mark.parametrize("checksum", [SUM, f"sha256:{SUM}", SUM.upper()])
def test_a_file_is_read_when_its_checksum_fits(folder: AssetFolder, checksum: str) -> None:
    assert folder.read("m/labels.txt", checksum) == BODY
    assert folder.checksums == {"m/labels.txt": f"sha256:{SUM}"}


def test_another_content_names_both_checksums(folder: AssetFolder) -> None:
    with pytest.raises(WrongChecksum) as caught:
        folder.read("m/labels.txt", "sha256:00ff")
    assert "00ff" in str(caught.value)
    assert SUM in str(caught.value)


def test_a_file_without_checksum_is_not_used(folder: AssetFolder) -> None:
    with pytest.raises(ChecksumMissing):
        folder.read("m/labels.txt", "")


def test_a_missing_file_is_named(folder: AssetFolder) -> None:
    with pytest.raises(FileMissing, match=r"m/none\.txt"):
        folder.read("m/none.txt", SUM)


@pytest.mark.parametrize("path", ["../../secret.txt", "m/../../../secret.txt", "/etc/hostname"])
def test_no_path_leads_out(folder: AssetFolder, path: str) -> None:
    with pytest.raises(PathOutsideManifests):
        folder.read(path, SUM)


def test_no_link_leads_out(folder: AssetFolder, tmp_path: Path) -> None:
    (tmp_path / "models" / "link").symlink_to(tmp_path.parent / "secret.txt")
    with pytest.raises(PathOutsideManifests):
        folder.read("link", SUM)


def test_labels_are_lines_of_a_named_asset(folder: AssetFolder) -> None:
    named = files(folder, base_url="file:m", assets={"labels.txt": SUM})
    assert named.labels("labels.txt") == ("cat", "dog")
    with pytest.raises(ChecksumMissing):
        files(folder, base_url="file:m").labels("labels.txt")


def test_other_addresses_are_not_fetched(folder: AssetFolder) -> None:
    named = files(folder, base_url="https://example.org/", graph_path="m.onnx")
    with pytest.raises(FileMissing, match=r"example\.org/m\.onnx: was not fetched"):
        named.graph()


def test_a_file_that_is_elsewhere_keeps_its_name(folder: AssetFolder, tmp_path: Path) -> None:
    (tmp_path / "cafe").write_bytes(BODY)
    brought = {"artifact://models/cafe.txt": FetchedFile(tmp_path / "cafe", SUM)}
    assets = {
        "base_url": "https://e.org",
        "graph_path": "m.onnx",
        "assets": {"l/names.txt": SUM},
        "addresses": dict.fromkeys(("m.onnx", "l/names.txt"), "artifact://models/cafe.txt"),
    }
    model = model_named("identity").model_copy(update={"model": Assets.model_validate(assets)})
    named = ModelFiles(folder, model, brought, tmp_path / "scratch")
    assert named.further() == {"l/names.txt": BODY}
    assert named.labels("l/names.txt") == ("cat", "dog")
    assert named.graph()[0].name == "m.onnx"
    assert {each.source.address for each in model_requests(model)} == set(brought)


@pytest.mark.parametrize("base", ["ftp://example.org", "https://user:word@example.org"])
def test_an_address_nobody_can_read_is_refused(folder: AssetFolder, base: str) -> None:
    with pytest.raises(FetchFailed, match="must be"):
        files(folder, base_url=base, graph_path="m.onnx").graph()


@pytest.mark.parametrize(
    ("checksum", "notes"),
    [
        (f"md5:{hashlib.md5(BODY).hexdigest()}", []),
        (
            f"sha256-prefix:{SUM[:8]}",
            ["m/labels.txt: only the first 8 digits of its sha256 are known"],
        ),
    ],
)
def test_other_checksums_do_too(folder: AssetFolder, checksum: str, notes: list[str]) -> None:
    named = files(folder, graph_path="m/labels.txt", checksum=checksum)
    assert named.graph()[1] == BODY
    assert named.checksums == {"m/labels.txt": f"sha256:{SUM}"}
    assert named.notes == notes
    algorithm, _, digest = checksum.partition(":")
    with pytest.raises(WrongChecksum, match=algorithm):
        folder.read("m/labels.txt", f"{algorithm}:{'0' * len(digest)}")


def test_what_was_brought_has_its_own_name(folder: AssetFolder, tmp_path: Path) -> None:
    (tmp_path / "cafe").write_bytes(BODY)
    brought = {
        f"https://e.org/{each}": FetchedFile(tmp_path / "cafe", SUM) for each in ("a.pt", "b.w")
    }
    assets = {"base_url": "https://e.org", "graph_path": "a.pt", "weights_path": "b.w"}
    model = model_named("identity").model_copy(update={"model": Assets.model_validate(assets)})
    named = ModelFiles(folder, model, brought, tmp_path / "scratch")
    path, body = named.graph()
    weights = named.weights()
    assert weights is not None
    assert (path.name, body, weights.name) == ("a.pt", BODY, "b.w")
    assert path.parent == weights.parent
    assert named.checksums == dict.fromkeys(brought, f"sha256:{SUM}")
    assert [note.partition(":")[0] for note in named.notes] == ["a.pt", "b.w"]


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("artifact://m.pt", "m.pt"),
        ("artifact://deep/m.safetensors", "m.safetensors"),
        ("https://e.org/x/m%20n.pt?download=1", "m n.pt"),
        ("pypi://some-nets==1.0/nets/m.tflite", "m.tflite"),
        ("pypi://some-nets==1.0", "some-nets-1.0.whl"),
        ("hf://them/nets@main/onnx/m.onnx", "m.onnx"),
    ],
)
def test_what_has_an_address_keeps_its_ending(
    folder: AssetFolder, tmp_path: Path, address: str, name: str
) -> None:
    path, _ = by_address(folder, tmp_path, graph_path=address).graph()
    assert path.name == name
    assert path.read_bytes() == address.encode()


@pytest.mark.parametrize(
    ("one", "other", "is_beside"),
    [
        ("artifact://m.pt", "artifact://w.pt", True),
        ("artifact://x", "artifact://x/y", False),
        ("https://e.org/get?id=1", "https://e.org/get?id=2", False),
        ("https://e.org/m.onnx", "https://e.org/m.onnx_data", True),
        ("hf://them/nets@main/a/m.onnx", "hf://them/nets@main/b/m.onnx", False),
    ],
)
def test_files_of_one_model_keep_apart(
    folder: AssetFolder, tmp_path: Path, one: str, other: str, is_beside: bool
) -> None:
    named = by_address(folder, tmp_path, graph_path=one, weights_path=other)
    graph, weights = named.graph()[0], named.weights()
    assert weights is not None
    assert (graph.read_bytes(), weights.read_bytes()) == (one.encode(), other.encode())
    assert (graph.parent == weights.parent) is is_beside


def by_address(folder: AssetFolder, scratch: Path, **assets: str) -> ModelFiles:
    """Return a model's files, each brought from its address, with that as its content."""
    brought = {}
    for number, address in enumerate(assets.values()):
        kept = scratch / f"cafe{number}"
        kept.write_bytes(address.encode())
        brought[address] = FetchedFile(kept, SUM)
    model = model_named("identity").model_copy(update={"model": Assets.model_validate(assets)})
    return ModelFiles(folder, model, brought, scratch / "scratch")


def test_a_model_without_a_file_has_none(folder: AssetFolder) -> None:
    assert files(folder).graph() == (Path(), b"")


def in_archive(folder: AssetFolder, tree: Path, path: str) -> ModelFiles:
    assets = Assets(archive="https://e.org/m.tgz", graph_path=path)
    model = model_named("identity").model_copy(update={"model": assets})
    return ModelFiles(folder, model, {assets.archive: FetchedFile(tree, SUM)})


def test_files_of_an_archive_stay_in_it(folder: AssetFolder, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "saved").mkdir(parents=True)
    (tree / "saved" / "m.pb").write_bytes(BODY)
    (tree / "out").symlink_to(tmp_path)
    for path, expected in (("saved/m.pb", BODY), ("saved", b""), ("", b"")):
        assert in_archive(folder, tree, path).graph() == ((tree / path).resolve(), expected)
    for path, error in (
        ("../secret.txt", PathOutsideManifests),
        ("out", PathOutsideManifests),
        ("no", FileMissing),
    ):
        with pytest.raises(error):
            in_archive(folder, tree, path).graph()


def test_random_weights_are_not_looked_for(folder: AssetFolder) -> None:
    named = files(folder, weights_path="m/none", seed=3, weights="random")
    assert named.weights() is None
    assert named.notes == ["the weights are random (seed 3): there is no accuracy"]
    with pytest.raises(ChecksumMissing):
        files(folder, weights_path="m/none").weights()


def test_weights_are_checked_where_there_are_some(folder: AssetFolder) -> None:
    assert files(folder).weights() is None
    named = files(folder, weights_path="m/labels.txt", weights_checksum="00")
    with pytest.raises(WrongChecksum):
        named.weights()
