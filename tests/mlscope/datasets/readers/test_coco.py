"""COCO: what pycocotools reads of an instances file is read here."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools.coco import COCO  # type: ignore[import-untyped,unused-ignore]

from mlscope.datasets.errors import DatasetError, LayoutMissing
from mlscope.datasets.opening import open_dataset
from mlscope.datasets.truth import Objects
from tests.mlscope.datasets.layouts import coco_in, picture, written

FILE = Path("annotations") / "instances_val2017.json"


def objects(folder: Path, index: int, **options: Any) -> Objects:
    """Return what is in a picture."""
    truth = open_dataset("coco", folder, options).truths[index]
    assert truth is not None
    assert truth.objects is not None
    return truth.objects


def test_pictures_in_the_files_order(tmp_path: Path) -> None:
    coco_in(tmp_path)
    dataset = open_dataset("coco", tmp_path)
    assert list(dataset) == [picture(0), picture(1)]
    names = [(truth.name, truth.classes, truth.labels) for truth in dataset.truths if truth]
    assert names == [("a.jpg", (), ()), ("b.jpg", (1, 90), ("person", "toothbrush"))]
    assert (dataset.classes[1], dataset.classes[2], len(dataset.classes)) == ("person", "", 91)


def test_objects_are_those_that_pycocotools_reads(tmp_path: Path) -> None:
    coco_in(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()):
        reference = COCO(str(tmp_path / FILE))
    expected = reference.imgToAnns[9]
    found = objects(tmp_path, 1)
    assert found.boxes.tolist() == [each["bbox"] for each in expected]
    assert found.classes.tolist() == [each["category_id"] for each in expected]
    assert found.crowd.tolist() == [bool(each["iscrowd"]) for each in expected]
    assert found.areas.tolist() == [each["area"] for each in expected]
    assert list(found.segmentations) == [each["segmentation"] for each in expected]
    assert (found.height, found.width) == (9, 12)


def test_a_picture_without_objects(tmp_path: Path) -> None:
    coco_in(tmp_path)
    assert objects(tmp_path, 0).boxes.shape == (0, 4)
    assert len(open_dataset("coco", tmp_path, {"labelled_only": True})) == 1


def test_a_missing_picture_is_lost_alone(tmp_path: Path) -> None:
    coco_in(tmp_path)
    (tmp_path / "val2017" / "a.jpg").unlink()
    dataset = open_dataset("coco", tmp_path)
    assert dataset[1] == picture(1)
    with pytest.raises(DatasetError, match=r"val2017/a\.jpg: record 0"):
        dataset[0]


def annotation(**changes: Any) -> list[dict[str, Any]]:
    """Return one annotation, changed."""
    return [{"image_id": 7, "category_id": 1, "bbox": [0, 0, 1, 1], "area": 1.0, **changes}]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"annotations": annotation(bbox=[1, 2])}, r"annotations\[0\]: bbox is \[1, 2\]"),
        ({"annotations": annotation(bbox=[1, 2, 3, float("nan")])}, "bbox is"),
        ({"annotations": annotation(category_id=5)}, "category_id is 5, expected a category"),
        ({"annotations": annotation(image_id=None)}, "image_id is None, expected an integer"),
        ({"annotations": annotation(area="big")}, "area is 'big'"),
        ({"annotations": {}}, "has no list annotations"),
        ({"images": [{"id": 1}]}, r"images\[0\]: file_name is None, expected a text"),
        ({"images": [{"id": 1, "file_name": "../../x"}]}, "leads out of"),
        ({"categories": [{"id": 1}]}, r"categories\[0\]: name is None"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    coco_in(tmp_path, **changes)
    with pytest.raises(DatasetError, match=words):
        open_dataset("coco", tmp_path)


@pytest.mark.parametrize("body", ["{", "[]", "[" * 100_000, "\xff"])
def test_what_is_no_json(tmp_path: Path, body: str) -> None:
    coco_in(tmp_path)
    written(tmp_path / FILE, body)
    with pytest.raises(DatasetError, match=r"instances_val2017\.json"):
        open_dataset("coco", tmp_path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    told = coco_in(tmp_path)
    other = {"annotations": "other.json"}
    with pytest.raises(LayoutMissing, match=r"has no other\.json"):
        open_dataset("coco", tmp_path, other)
    written(tmp_path / "other.json", json.dumps(told))
    assert np.array_equal(objects(tmp_path, 1, **other).boxes, objects(tmp_path, 1).boxes)
