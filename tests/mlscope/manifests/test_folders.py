"""Manifests read from files: in order, each bad one with its reason and the others all the same."""

from pathlib import Path

import pytest

from mlscope.manifests.errors import ManifestFaulty
from mlscope.manifests.folders import folder_of, read_manifest, read_manifests

SHIPPED = Path(__file__).resolve().parents[3] / "manifests"
DATASET = "name: d\nsynthetic: {shape: [4]}\n"


def reason(path: Path, kind: str = "") -> str:
    """Return why a file is no manifest."""
    with pytest.raises(ManifestFaulty) as faulty:
        read_manifest(path, kind)
    assert faulty.value.file == path.name
    return str(faulty.value)


def test_everything_shipped_is_readable() -> None:
    read = list(read_manifests(SHIPPED))
    assert [each for each in read if isinstance(each, ManifestFaulty)] == []
    assert {"model", "dataset", "scenario"} <= {getattr(each, "kind", "") for each in read}


def test_files_come_by_kind_then_name_and_bad_ones_as_errors(tmp_path: Path) -> None:
    for part in ("datasets", "models"):
        (tmp_path / part).mkdir()
    for name in ("b.yml", "a.yaml"):
        (tmp_path / "datasets" / name).write_text(DATASET.replace("name: d", f"name: {name[0]}"))
    (tmp_path / "datasets" / "c.txt").write_text("no manifest")
    (tmp_path / "models" / "z.yml").write_text("[]")
    bad, *good = read_manifests(tmp_path)
    assert isinstance(bad, ManifestFaulty)
    assert [getattr(each, "name", "") for each in good] == ["a", "b"]


def test_a_folder_without_manifests_has_none(tmp_path: Path) -> None:
    assert list(read_manifests(tmp_path / "nowhere")) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[1]", "found [1], allowed: a map of fields"),
        ("", "found nothing, allowed: a map of fields"),
        ("name: [", "expected node content"),
        ("name: d\nsynthetic: {shape: x}\n", "synthetic.shape"),
        ("synthetic: {shape: [4]}\n", "name"),
        ("kind: poem\nname: x\n", "poem"),
        ("!!python/object/apply:os.getpid []", "could not determine a constructor"),
    ],
)
def test_what_is_no_manifest_says_why(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "x.yml"
    path.write_text(text)
    assert found in reason(path, "dataset")


def test_what_cannot_be_read_at_all_says_why(tmp_path: Path) -> None:
    assert reason(tmp_path / "none.yml").endswith(
        "none.yml: found No such file or directory, allowed: a readable file"
    )
    (tmp_path / "latin.yml").write_bytes(b"name: \xff")
    assert "utf-8" in reason(tmp_path / "latin.yml")
    (tmp_path / "large.yml").write_bytes(b"#" * ((1 << 20) + 1))
    assert reason(tmp_path / "large.yml") == (
        "large.yml: found 1048577 bytes, allowed: up to 1048576"
    )
    (tmp_path / "folder.yml").mkdir()
    assert "directory" in reason(tmp_path / "folder.yml").lower()


def test_a_kind_in_the_file_goes_before_that_of_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "x.yml"
    path.write_text(f"kind: dataset\n{DATASET}")
    assert read_manifest(path, "model").kind == "dataset"
    assert read_manifest(path).kind == "dataset"


def test_manifests_lie_in_folders_below_that_of_their_kind(tmp_path: Path) -> None:
    for kind, name in (("dataset", "a"), ("hardware", "b"), ("software", "c")):
        folder = tmp_path / folder_of(kind) / "deeper"
        folder.mkdir(parents=True)
        more = "synthetic: {}\n" if kind == "dataset" else ""
        (folder / f"{name}.yml").write_text(f"name: {name}\n{more}")
    assert [getattr(each, "kind", "") for each in read_manifests(tmp_path)] == [
        "dataset",
        "hardware",
        "software",
    ]
