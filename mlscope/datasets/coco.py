"""COCO: pictures, and the instances JSON with what is in them.

Classes are the file's own category numbers (1 to 90 with gaps). The annotations are held as arrays
and the outlines as JSON text; pictures are read when asked for.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mlscope.datasets.dataset import Dataset, below, file_bytes, json_in, needed
from mlscope.datasets.errors import BadField, FileBroken
from mlscope.datasets.place import Place
from mlscope.datasets.truth import Objects, Truth

Annotation = tuple[tuple[float, ...], int, bool, float, str]
"""Box, category, is a crowd, area, outline as JSON."""


def coco(place: Place) -> Dataset:
    """Pictures of `split` (val2017) in the file's order, with annotations/instances_<split>.json.

    `annotations` names another file; `labelled_only: true` leaves out pictures without objects.
    Raises DatasetError.
    """
    options = place.options
    split = options.text("split", "val2017")
    named = options.text("annotations", f"annotations/instances_{split}.json")
    labelled_only = options.flag("labelled_only", default=False)
    file = needed(place.path, options.reader, named)
    root = needed(place.path, options.reader, split, f"images/{split}", "images")
    shown, told = place.shown(file), _json(file, place)
    names = _names(told, shown)
    objects = _objects(told, shown, set(names))
    pictures = _pictures(told, shown, root)
    if labelled_only:
        pictures = [each for each in pictures if each[0] in objects]

    def truth(index: int) -> Truth:
        number, path, height, width = pictures[index]
        found = objects.get(number, ())
        classes = tuple(sorted({each[1] for each in found}))
        labels = tuple(names[each] for each in classes)
        return Truth(path.name, classes, labels, objects=_arrays(found, height, width))

    by_number = [names.get(number, "") for number in range(max(names, default=0) + 1)]
    return Dataset(
        len(pictures),
        lambda index: file_bytes(pictures[index][1], place.path, index),
        truth,
        by_number,
    )


def _json(file: Path, place: Place) -> Mapping[str, Any]:
    shown, told = place.shown(file), json_in(file, place.path)
    if not isinstance(told, dict):
        raise FileBroken(shown, f"holds {type(told).__name__}, expected a map")
    for field in ("images", "annotations", "categories"):
        if not isinstance(told.get(field), list):
            raise FileBroken(shown, f"has no list {field}")
    return told


def _names(told: Mapping[str, Any], shown: str) -> Mapping[int, str]:
    found = {}
    for number, each in enumerate(told["categories"]):
        category = _field(each, "id", int, shown, f"categories[{number}]")
        found[category] = _field(each, "name", str, shown, f"categories[{number}]")
    return found


def _pictures(
    told: Mapping[str, Any], shown: str, root: Path
) -> Sequence[tuple[int, Path, int, int]]:
    found = []
    for number, each in enumerate(told["images"]):
        record = f"images[{number}]"
        read = partial(_field, each, shown=shown, record=record)
        path = below(root, read("file_name", str), shown, record)
        sizes = (each.get(name) for name in ("height", "width"))
        height, width = (size if isinstance(size, int) else 0 for size in sizes)
        found.append((read("id", int), path, height, width))
    return found


def _objects(
    told: Mapping[str, Any], shown: str, known: set[int]
) -> Mapping[int, list[Annotation]]:
    found: dict[int, list[Annotation]] = defaultdict(list)
    for number, each in enumerate(told["annotations"]):
        record = f"annotations[{number}]"
        read = partial(_field, each, shown=shown, record=record)
        box, category = read("bbox", list), read("category_id", int)
        if len(box) != 4 or not all(_is_finite(side) for side in box):
            raise BadField(shown, record, "bbox", box, "x, y, width and height")
        if category not in known:
            raise BadField(shown, record, "category_id", category, "a category of the file")
        area = each.get("area", box[2] * box[3])
        if not _is_finite(area):
            raise BadField(shown, record, "area", area, "a number of pixels")
        outline = json.dumps(each.get("segmentation"), separators=(",", ":"))
        place = read("image_id", int)
        found[place].append((tuple(box), category, bool(each.get("iscrowd")), area, outline))
    return dict(found)


def _arrays(found: Sequence[Annotation], height: int, width: int) -> Objects:
    return Objects(
        np.array([each[0] for each in found], np.float64).reshape(-1, 4),
        np.array([each[1] for each in found], np.int64),
        np.array([each[2] for each in found], bool),
        np.array([each[3] for each in found], np.float64),
        tuple(json.loads(each[4]) for each in found),
        height,
        width,
    )


def _field(value: Any, name: str, kind: type, shown: str, record: str) -> Any:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, kind) or isinstance(found, bool):
        expected = {int: "a whole number", str: "a text", list: "a list"}[kind]
        raise BadField(shown, record, name, found, expected)
    return found


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
