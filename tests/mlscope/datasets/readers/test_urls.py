"""Lists of addresses: read, and their files where somebody put them."""

from pathlib import Path

import pytest

from mlscope.datasets.errors import BadRecord
from mlscope.datasets.opening import open_dataset
from mlscope.datasets.readers.urls import ListedFile, listed_files
from tests.mlscope.datasets.layouts import written

CSV = "url,label,sha256\nhttps://e.org/a.jpg,cat,ab12\nhttps://e.org/b.jpg,dog,\n"


def test_lines_and_tables(tmp_path: Path) -> None:
    plain = written(tmp_path / "l.txt", "# photos\nhttps://e.org/a.jpg\n\nhttps://e.org/b.jpg\n")
    assert [each.url for each in listed_files(plain, "l")] == [
        "https://e.org/a.jpg",
        "https://e.org/b.jpg",
    ]
    table = written(tmp_path / "l.csv", CSV)
    assert next(listed_files(table, "l")) == ListedFile(2, "https://e.org/a.jpg", "ab12", "cat")


def test_one_that_was_not_fetched_is_lost_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "l.csv", CSV)
    fetched = written(tmp_path / "cache" / "x", "B")
    brought: dict[str, Path | str] = {
        "https://e.org/b.jpg": fetched,
        "https://e.org/a.jpg": "404 Not Found",
    }
    dataset = open_dataset("urls", path, fetched=brought)
    assert dataset[1] == b"B"
    with pytest.raises(BadRecord, match=r"l\.csv: record line 2: .*/a\.jpg: 404 Not Found"):
        dataset[0]


def test_labels_by_name(tmp_path: Path) -> None:
    written(tmp_path / "names.txt", "dog\ncat\n")
    dataset = open_dataset("urls", written(tmp_path / "l.csv", CSV), {"class_names": "names.txt"})
    assert [truth.classes for truth in dataset.truths if truth] == [(1,), (0,)]


def test_a_row_of_another_width_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "l.csv", "url,label\nhttps://e.org/a\n")
    with pytest.raises(BadRecord, match="line 2: has 1 cells, the heading has 2"):
        open_dataset("urls", path)
