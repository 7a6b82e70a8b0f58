"""Folders of pictures: a folder a class, a file of labels, or none."""

from pathlib import Path
from typing import Any

import pytest

from mlscope.datasets.dataset import Dataset
from mlscope.datasets.errors import BadField, BadRecord, DatasetError, LayoutMissing, PathEscapes
from mlscope.datasets.opening import open_dataset
from mlscope.datasets.truth import Truth
from tests.mlscope.datasets.layouts import picture, written


def truths(dataset: Dataset) -> list[Truth]:
    """Return the truths of all samples."""
    return [truth for truth in dataset.truths if truth is not None]


def by_class(root: Path) -> None:
    """Write two pictures of a cat and one of a dog, and what is no picture."""
    for name in ("dog/1.png", "cat/b.jpg", "cat/a.jpg", "cat/deep/c.webp"):
        written(root / name, name)
    for name in ("cat/.hidden.jpg", "cat/notes.txt", ".git/x/d.jpg"):
        written(root / name, "no")


def test_a_folder_a_class(tmp_path: Path) -> None:
    by_class(tmp_path)
    (tmp_path / ".git").rename(tmp_path / "cat" / ".git")
    dataset = open_dataset("image_folder", tmp_path)
    assert list(dataset) == [b"cat/a.jpg", b"cat/b.jpg", b"cat/deep/c.webp", b"dog/1.png"]
    found = truths(dataset)
    assert [truth.classes for truth in found] == [(0,), (0,), (0,), (1,)]
    assert [truth.labels for truth in found] == [("cat",)] * 3 + [("dog",)]
    assert [truth.name for truth in found][::3] == ["cat/a.jpg", "dog/1.png"]
    assert dataset.classes == ("cat", "dog")


def test_folders_that_tools_leave_behind_are_no_classes(tmp_path: Path) -> None:
    for name in ("cat/1.jpg", ".cache/2.jpg", "__MACOSX/cat/3.jpg"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"x")
    dataset = open_dataset("image_folder", tmp_path)
    assert (len(dataset), dataset.classes) == (1, ("cat",))


def test_class_names_give_folders_their_places(tmp_path: Path) -> None:
    written(tmp_path / "p" / "dog" / "1.png", "d")
    written(tmp_path / "p" / "names.txt", "ant\ndog\n")
    dataset = open_dataset("image_folder", tmp_path / "p", {"class_names": "names.txt"})
    assert truths(dataset)[0].classes == (1,)
    written(tmp_path / "p" / "eel" / "1.png", "d")
    with pytest.raises(BadField, match="record eel: folder is 'eel', expected one of 2: ant, dog"):
        open_dataset("image_folder", tmp_path / "p", {"class_names": "names.txt"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.csv", 'path,label\nb.jpg,1\n"a, c.jpg",0\n'),
        ("labels.txt", "b.jpg 1\na, c.jpg\t0\n"),
        ("val.txt", "b.jpg 1\na, c.jpg 0"),
    ],
)
def test_a_file_of_labels(tmp_path: Path, name: str, text: str) -> None:
    written(tmp_path / "a, c.jpg", "A")
    written(tmp_path / "b.jpg", "B")
    written(tmp_path / name, text if name == "labels.csv" else text.replace("a, c", "a_c"))
    (tmp_path / "a_c.jpg").write_bytes(b"A")
    options = {"labels": name, "classes": 2}
    dataset = open_dataset("image_folder", tmp_path, options)
    assert list(dataset) == [b"B", b"A"]
    assert [truth.classes for truth in truths(dataset)] == [(1,), (0,)]


def test_labels_may_be_names(tmp_path: Path) -> None:
    written(tmp_path / "labels.txt", "a.jpg tabby\nb.jpg corgi\n")
    dataset = open_dataset("image_folder", tmp_path)
    assert [truth.classes for truth in truths(dataset)] == [(1,), (0,)]
    assert dataset.classes == ("corgi", "tabby")


@pytest.mark.parametrize(
    ("line", "error", "words"),
    [
        ("a.jpg 2", BadField, r"labels\.txt: record line 2: label is 2, expected a class, 0 to 1"),
        ("a.jpg -1", BadField, "label is -1"),
        ("a.jpg", BadRecord, "line 2: a sample and its label expected"),
        ("../a.jpg 1", PathEscapes, "line 2: '../a.jpg' leads out of"),
    ],
)
def test_a_line_that_is_wrong_is_named(
    tmp_path: Path, line: str, error: type[DatasetError], words: str
) -> None:
    written(tmp_path / "labels.txt", f"b.jpg 0\n{line}\n")
    with pytest.raises(error, match=words):
        open_dataset("image_folder", tmp_path, {"classes": 2})


def test_a_picture_that_is_missing_is_lost_alone(tmp_path: Path) -> None:
    written(tmp_path / "b.jpg", "B")
    written(tmp_path / "labels.txt", "a.jpg 0\nb.jpg 1\n")
    dataset = open_dataset("image_folder", tmp_path)
    assert dataset[1] == b"B"
    with pytest.raises(BadRecord, match=r"a\.jpg: record 0: No such file"):
        dataset[0]


def test_pictures_without_labels_are_refused_unless_that_is_said(tmp_path: Path) -> None:
    body = picture()
    written(tmp_path / "p" / "a.jpg", body)
    with pytest.raises(LayoutMissing, match=r"p: has neither class folders nor labels\.csv"):
        open_dataset("image_folder", tmp_path / "p")
    assert list(open_dataset("image_folder", tmp_path / "p", {"labelled": False})) == [body]


def test_files_without_labels_have_names(tmp_path: Path) -> None:
    written(tmp_path / "p" / "b" / "c.jpg", picture())
    written(tmp_path / "p" / "a.jpg", picture())
    folder = open_dataset("image_folder", tmp_path / "p", {"labelled": False})
    named = [(truth.name, truth.labels) for truth in truths(folder)]
    assert named == [("a.jpg", ()), ("b/c.jpg", ())]


def test_a_single_file_has_its_name(tmp_path: Path) -> None:
    written(tmp_path / "a.jpg", picture())
    file = open_dataset("files", tmp_path / "a.jpg")
    assert [truth.name for truth in truths(file)] == ["a.jpg"]


@pytest.mark.parametrize("options", [{"labels": "none.csv"}, {"class_names": "none.txt"}])
def test_a_file_of_labels_that_is_missing_is_named(tmp_path: Path, options: dict[str, Any]) -> None:
    by_class(tmp_path)
    with pytest.raises(DatasetError, match=r"none\.(csv|txt)"):
        open_dataset("image_folder", tmp_path, options)


def test_any_files(tmp_path: Path) -> None:
    by_class(tmp_path)
    assert len(open_dataset("files", tmp_path)) == 5
    assert list(open_dataset("files", tmp_path, {"endings": [".txt"]})) == [b"no"]
    assert list(open_dataset("files", tmp_path / "dog" / "1.png")) == [b"dog/1.png"]


def test_no_samples_at_all(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    with pytest.raises(LayoutMissing, match="holds no samples"):
        open_dataset("image_folder", tmp_path)
