"""Readers by name, the built-in ones and those of packages."""

import sys
from pathlib import Path

import pytest

from mlscope.datasets.dataset import LazySequence
from mlscope.datasets.errors import BadOption, LayoutMissing, UnknownReader
from mlscope.datasets.opening import BUILT_IN, open_dataset, reader_named, reader_names
from mlscope.datasets.options import Options
from tests.mlscope.datasets.layouts import written


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_reader_is_there_and_says_what_it_reads(name: str) -> None:
    assert (reader_named(name).__doc__ or "").count("DatasetError") <= 1
    assert reader_named(name).__doc__


def test_an_unknown_reader_is_told_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownReader, match=r"no reader 'imagnet'; known: .*imagenet"):
        open_dataset("imagnet", tmp_path)


def test_a_package_may_bring_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(
        tmp_path / "lines_reader.py",
        "from mlscope.datasets.dataset import Dataset\n"
        "def read(place):\n"
        "    lines = place.path.read_text().splitlines()\n"
        "    return Dataset(len(lines), lines.__getitem__, lambda _: None)\n",
    )
    points = "[mlscope.datasets]\nlines = lines_reader:read\n"
    written(tmp_path / "lines-1.dist-info" / "entry_points.txt", points)
    written(tmp_path / "lines-1.dist-info" / "METADATA", "Name: lines\nVersion: 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "lines" in reader_names()
    assert list(open_dataset("lines", written(tmp_path / "a.txt", "one\ntwo\n"))) == ["one", "two"]
    sys.modules.pop("lines_reader")


def test_a_reader_written_for_release_0_1_still_works(tmp_path: Path) -> None:
    from mlscope.datasets.place import Place

    path = written(tmp_path / "a.txt", "one")
    fetched = {"https://example.org/a": path}
    place = Place(path, Options("lines", {"count": 3, "inner": {"a": 1}}), tmp_path, fetched)
    assert (place.options.whole("count", 0), place.options.below("inner")) == (3, {"a": 1})
    place.options.done()
    with place.room() as file:
        file.write(b"x")
    assert place.brought == fetched


def test_the_helpers_of_readers_have_their_names_of_release_0_1_too(tmp_path: Path) -> None:
    from mlscope.datasets.dataset import Lazily, below, inside, json_in, needed
    from mlscope.datasets.labels import is_number, number_of, pairs_in
    from mlscope.datasets.pixels import form_of
    from mlscope.datasets.truth import Classes, Where

    path = written(tmp_path / "a.json", "[1]")
    assert json_in(needed(tmp_path, "lines", "b.json", "a.json"), tmp_path) == [1]
    assert below(tmp_path, "a.json", "list", 0) == inside(tmp_path, path.resolve())
    assert list(Lazily(2, str)) == ["0", "1"]
    labels = written(tmp_path / "labels.txt", "a.png 0\n")
    assert list(pairs_in(labels, tmp_path)) == [(1, "a.png", "0")]
    assert (is_number("0"), number_of("0", "labels.txt", 1, "label")) == (True, 0)
    assert callable(form_of(Options("lines", {"gives": "array"})))
    classes, where = Classes(("cat", "dog")), Where("labels.txt", 1)
    assert classes.places["dog"] == 1
    assert classes.named("dog", "a.png", where).classes == (1,)
    assert classes.truth(1, "a.png", where).labels == ("dog",)


def test_the_first_samples_only(tmp_path: Path) -> None:
    for name in "abc":
        written(tmp_path / name, name)
    dataset = open_dataset("files", tmp_path, most_samples=2)
    assert (list(dataset), len(dataset.truths)) == ([b"a", b"b"], 2)
    assert len(open_dataset("files", tmp_path, most_samples=9)) == 3


def test_what_is_not_there_and_what_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(LayoutMissing, match="no such file or folder"):
        open_dataset("files", tmp_path / "none")
    written(tmp_path / "a", "a")
    with pytest.raises(BadOption, match="option ending must be one of endings"):
        open_dataset("files", tmp_path, {"ending": ".x"})


def test_elements_are_made_when_asked_for() -> None:
    asked: list[int] = []

    def make(index: int) -> int:
        asked.append(index)
        return index * 2

    lazily = LazySequence(1_000_000_000, make)
    assert (lazily[3], lazily[-1], list(lazily[4:8:2])) == (6, 1_999_999_998, [8, 12])
    assert asked == [3, 999_999_999, 4, 6]
    with pytest.raises(IndexError):
        lazily[1_000_000_000]
