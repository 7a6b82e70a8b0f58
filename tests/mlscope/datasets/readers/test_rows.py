"""CSV: columns as the manifest names them, rows read where they begin."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.datasets.errors import BadField, BadOption, BadRecord, DatasetError, FileBroken
from mlscope.datasets.opening import open_dataset
from tests.mlscope.datasets.layouts import written

IRIS = 'sepal,petal,species,note\r\n5.1,0.2,setosa,plain\r\n6.3,1.5,virginica,"two\r\nlines"\r\n'


def test_columns_of_numbers_and_a_class(tmp_path: Path) -> None:
    path = written(tmp_path / "iris.csv", IRIS)
    written(tmp_path / "names.txt", "setosa\nvirginica\n")
    options = {"features": ["petal", "sepal"], "label": "species", "class_names": "names.txt"}
    dataset = open_dataset("csv", path, options)
    assert [sample.tolist() for sample in dataset] == [
        [np.float32(0.2), np.float32(5.1)],
        [1.5, np.float32(6.3)],
    ]
    assert dataset[0].dtype == np.float32
    assert [truth.classes for truth in dataset.truths if truth] == [(0,), (1,)]
    assert dataset.classes == ("setosa", "virginica")


def test_text_over_several_lines_and_right_answers(tmp_path: Path) -> None:
    path = written(tmp_path / "iris.csv", IRIS)
    dataset = open_dataset("csv", path, {"text": "note", "texts": ["species", "sepal"]})
    assert list(dataset) == ["plain", "two\r\nlines"]
    truth = dataset.truths[1]
    assert truth is not None
    assert truth.texts == ("virginica", "6.3")


def test_files_beside_it_and_targets(tmp_path: Path) -> None:
    written(tmp_path / "pictures" / "a.jpg", "A")
    path = written(tmp_path / "t.csv", "file,age\npictures/a.jpg,41.5\nnone.jpg,3\n../t.csv,2\n")
    dataset = open_dataset("csv", path, {"file": "file", "targets": ["age"]})
    truth = dataset.truths[0]
    assert truth is not None
    assert truth.values is not None
    assert (dataset[0], truth.values.tolist()) == (b"A", [41.5])
    with pytest.raises(BadRecord, match=r"none\.jpg: record 1"):
        dataset[1]
    with pytest.raises(DatasetError, match=r"record 2: '\.\./t\.csv' leads out"):
        dataset[2]


def test_several_inputs(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "user,item,text\n3,4,hello\n")
    inputs = {
        "ids": {"features": ["user", "item"], "element_type": "int64", "shape": [2, 1]},
        "said": {"text": ["text"]},
    }
    sample = open_dataset("csv", path, {"inputs": inputs})[0]
    assert (sample["ids"].tolist(), sample["said"]) == ([[3], [4]], "hello")


@pytest.mark.parametrize(
    ("cell", "kind", "words"),
    [
        ("nan", "float32", "record 1: x is 'nan', expected a number"),
        ("", "float32", "record 1: x is '', expected a number"),
        ("1.5", "int32", "x is '1.5', expected an integer"),
    ],
)
def test_a_cell_that_is_no_number_is_lost_alone(
    tmp_path: Path, cell: str, kind: str, words: str
) -> None:
    path = written(tmp_path / "t.csv", f"x,y\n1,0\n{cell},0\n2,0\n")
    dataset = open_dataset("csv", path, {"features": ["x"], "element_type": kind})
    assert (dataset[0].tolist(), dataset[2].tolist()) == ([1], [2])
    with pytest.raises(BadField, match=words):
        dataset[1]


def test_nan_may_be_meant(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "x\nNaN\n")
    sample = open_dataset("csv", path, {"features": ["x"], "allow_nan": True})[0]
    assert np.isnan(sample).all()


def test_a_row_of_another_width_is_lost_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "x,y\n1,2\n3\n4,5\n")
    dataset = open_dataset("csv", path, {"features": ["x"]})
    assert dataset[2].tolist() == [4]
    with pytest.raises(BadRecord, match="record 1: has 1 cells, the heading has 2"):
        dataset[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"features": ["z"]}, "features must be one of the columns x, y"),
        ({}, "either features, file or text"),
        ({"features": ["x"], "text": "y"}, "either features, file or text"),
        ({"features": ["x"], "shape": [2]}, "a shape of 1 numbers"),
        ({"features": ["x"], "label": "z"}, "label must be one of the columns"),
        ({"features": ["x"], "element_type": "text"}, "an element type of numbers"),
        ({"features": ["x"], "delimiter": "::"}, "one character"),
        ({"inputs": {"a": {"features": ["x"], "colour": 1}}}, "option colour"),
        ({"inputs": {"a": 3}}, "inputs.a must be a map"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    path = written(tmp_path / "t.csv", "x,y\n1,2\n")
    with pytest.raises(BadOption, match=words):
        open_dataset("csv", path, options)


@pytest.mark.parametrize(
    ("body", "words"),
    [(b"x,x\n1,2\n", "two columns 'x'"), (b"x\n\xff\xfe\n", "no CSV from byte")],
)
def test_what_is_no_csv(tmp_path: Path, body: bytes, words: str) -> None:
    with pytest.raises(FileBroken, match=words):
        open_dataset("csv", written(tmp_path / "t.csv", body), {"features": ["x"]})


def test_an_unknown_class_is_named_with_its_row(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "x,y\n1,0\n1,7\n")
    dataset = open_dataset("csv", path, {"features": ["x"], "label": "y", "classes": 3})
    with pytest.raises(BadField, match=r"t\.csv: record 1: y is 7, expected a class, 0 to 2"):
        dataset.truths[1]
