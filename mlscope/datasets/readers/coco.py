"""COCO: pictures, and the instances JSON with the objects in them.

Classes are the file's own category numbers (1 to 90 with gaps). The annotations stay in memory,
their outlines as JSON text; a picture is read when it is asked for.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlscope.datasets.dataset import (
    Dataset,
    file_bytes,
    first_existing,
    read_json,
    resolve_below,
)
from mlscope.datasets.errors import BadField, FileBroken
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.truth import Objects, Truth


class Annotation(NamedTuple):
    """One object: its box (x, y, width, height in pixels), class, area and outline as JSON."""

    box: tuple[float, ...]
    category: int
    is_crowd: bool
    area: float
    outline: str


class _Picture(NamedTuple):
    """One picture: its id in the file, its path, and its size in pixels (0 unknown)."""

    number: int
    path: Path
    height: int
    width: int


def coco(source: ReaderInput) -> Dataset:
    """Pictures of `split` (val2017) in the file's order, with annotations/instances_<split>.json.

    `annotations` names another file; `labelled_only: true` leaves out pictures without objects.
    Raises DatasetError.
    """
    options = source.options
    split = options.text("split", "val2017")
    annotations = options.text("annotations", f"annotations/instances_{split}.json")
    labelled_only = options.flag("labelled_only", default=False)
    path = first_existing(source.path, options.reader, annotations)
    root = first_existing(source.path, options.reader, split, f"images/{split}", "images")
    file, document = source.shown(path), instances_in(path, source)
    names = {}
    for number, category in enumerate(document["categories"]):
        read = partial(_field, category, file=file, record=f"categories[{number}]")
        names[read("id", int)] = read("name", str)
    annotations_by_picture = _annotations(document["annotations"], file, set(names))
    pictures = _pictures(document["images"], file, root)
    if labelled_only:
        pictures = [item for item in pictures if item.number in annotations_by_picture]

    def truth(index: int) -> Truth:
        picture = pictures[index]
        objects = annotations_by_picture.get(picture.number, ())
        classes = tuple(sorted({item.category for item in objects}))
        labels = tuple(names[category] for category in classes)
        arrays = _object_arrays(objects, picture.height, picture.width)
        return Truth(picture.path.name, classes, labels, objects=arrays)

    return Dataset(
        len(pictures),
        lambda index: file_bytes(pictures[index].path, source.path, index),
        truth,
        [names.get(number, "") for number in range(max(names, default=0) + 1)],
    )


def instances_in(path: Path, source: ReaderInput) -> dict[str, list[Any]]:
    """Return the lists of the instances JSON at `path`. Raises FileBroken."""
    file, document = source.shown(path), read_json(path, source.path)
    if not isinstance(document, dict):
        raise FileBroken(file, f"holds {type(document).__name__}, expected a map")
    for field in ("images", "annotations", "categories"):
        if not isinstance(document.get(field), list):
            raise FileBroken(file, f"has no list {field}")
    return document


def _pictures(entries: Sequence[Any], file: str, root: Path) -> list[_Picture]:
    """Return the pictures of the document's `images`. Raises BadField, PathEscapes."""
    pictures = []
    for number, entry in enumerate(entries):
        record = f"images[{number}]"
        read = partial(_field, entry, file=file, record=record)
        path = resolve_below(root, read("file_name", str), file, record)
        sizes = (entry.get(name) for name in ("height", "width"))
        height, width = (size if isinstance(size, int) else 0 for size in sizes)
        pictures.append(_Picture(read("id", int), path, height, width))
    return pictures


def _annotations(
    entries: Sequence[Any], file: str, categories: set[int]
) -> Mapping[int, list[Annotation]]:
    """Return the objects of the document's `annotations` by the id of their picture.

    Raises BadField.
    """
    by_picture: dict[int, list[Annotation]] = defaultdict(list)
    for number, entry in enumerate(entries):
        record = f"annotations[{number}]"
        read = partial(_field, entry, file=file, record=record)
        box, category = read("bbox", list), read("category_id", int)
        if len(box) != 4 or not all(_is_finite(side) for side in box):
            raise BadField(file, record, "bbox", box, "x, y, width and height")
        if category not in categories:
            raise BadField(file, record, "category_id", category, "a category of the file")
        area = entry.get("area", box[2] * box[3])
        if not _is_finite(area):
            raise BadField(file, record, "area", area, "a number of pixels")
        outline = json.dumps(entry.get("segmentation"), separators=(",", ":"))
        annotation = Annotation(tuple(box), category, bool(entry.get("iscrowd")), area, outline)
        by_picture[read("image_id", int)].append(annotation)
    return dict(by_picture)


def _object_arrays(annotations: Sequence[Annotation], height: int, width: int) -> Objects:
    """Return the objects of a picture of `height` by `width` pixels as arrays."""
    return Objects(
        np.array([item.box for item in annotations], np.float64).reshape(-1, 4),
        np.array([item.category for item in annotations], np.int64),
        np.array([item.is_crowd for item in annotations], bool),
        np.array([item.area for item in annotations], np.float64),
        tuple(json.loads(item.outline) for item in annotations),
        height,
        width,
    )


def _field(entry: Any, name: str, kind: type, file: str, record: str) -> Any:
    """Return a field of an entry. Raises BadField where it is missing or of another `kind`."""
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = {int: "an integer", str: "a text", list: "a list"}[kind]
        raise BadField(file, record, name, value, expected)
    return value


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
