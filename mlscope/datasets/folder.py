"""Folders of files: with a folder a class, with a file of labels, or without labels."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mlscope.datasets.dataset import Dataset, below, file_bytes, inside, needed
from mlscope.datasets.errors import LayoutMissing
from mlscope.datasets.labels import classes_of, is_number, pairs_in, truth_of
from mlscope.datasets.place import Place
from mlscope.datasets.truth import Classes, Truth, Where

PICTURES = (".jpg", ".jpeg", ".png", ".webp")
LABEL_FILES = ("labels.csv", "labels.txt")


def image_folder(place: Place) -> Dataset:
    """Pictures with labels: class folders, or a file of labels beside flat pictures.

    A folder a class: classes are the folders in the order of their names, their pictures in the
    order of their paths. Else the file `labels` (labels.csv or labels.txt): a picture and its
    label a line, the label a class's index, or a name; then names count in the order of
    `class_names`, or of the alphabet. `classes`: how many there are. `labelled: false` does
    without. Raises DatasetError.
    """
    options = place.options
    given, is_labelled = options.text("labels"), options.flag("labelled", default=True)
    classes = classes_of(place)
    if not is_labelled:
        return _unlabelled(place, PICTURES)
    if given or any((place.path / each).is_file() for each in LABEL_FILES):
        file = needed(place.path, options.reader, *([given] if given else LABEL_FILES))
        return labelled_by(place, file, classes, place.path)
    return by_folder(place, place.path, classes)


def files(place: Place) -> Dataset:
    """Any files, in the order of their paths, without labels. `endings` chooses some."""
    return _unlabelled(place, place.options.texts("endings"))


def by_folder(place: Place, root: Path, classes: Classes) -> Dataset:
    """Return the pictures of a folder a class. Raises LayoutMissing, BadField, PathEscapes."""
    folders = sorted(each.name for each in root.iterdir() if each.is_dir())
    if not folders:
        missing = (
            f"has neither class folders nor {' or '.join(LABEL_FILES)} "
            "(`labelled: false` does without labels)"
        )
        raise LayoutMissing(place.path.name, missing, place.options.reader)
    known = classes if classes.names else Classes(tuple(folders), classes.count)
    found, owners = [], []
    for folder in folders:
        where = Where(place.path.name, folder, "folder")
        truth = known.named(folder, folder, where)
        paths = list(paths_below(root / folder, PICTURES, place.path))
        found += paths
        owners += [truth] * len(paths)
    return of_files(place, found, owners, known.names)


def labelled_by(place: Place, file: Path, classes: Classes, pictures: Path) -> Dataset:
    """Return the pictures that a file names, each with its label. Raises DatasetError."""
    shown = place.shown(file)
    pairs = list(pairs_in(file, place.path))
    if not classes.names and not all(is_number(label) for _, _, label in pairs):
        classes = Classes(tuple(sorted({label for _, _, label in pairs})), classes.count)
    found, truths = [], []
    for number, name, label in pairs:
        record = f"line {number}"
        found.append(below(pictures, name, shown, record))
        truths.append(truth_of(label, classes, name, Where(shown, record)))
    return of_files(place, found, truths, classes.names)


def of_files(
    place: Place, paths: Sequence[Path], truths: Sequence[Truth | None], names: Sequence[str]
) -> Dataset:
    """Return files as samples, and the truth of each."""

    def truth(index: int) -> Truth | None:
        known = truths[index]
        return known and replace(known, name=_name(paths[index], place))

    return Dataset(
        len(paths), lambda index: file_bytes(paths[index], place.path, index), truth, names
    )


def paths_below(folder: Path, endings: Sequence[str], root: Path | None = None) -> Iterator[Path]:
    """Yield the files below a folder with one of these endings (all, if none), in order.

    Names that begin with a dot are left out; links to folders below are not followed. Raises
    PathEscapes where the folder, or a file, is a link out of `root` (the folder, if none).
    """
    root = root or folder
    inside(root, folder)
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and (not endings or name.lower().endswith(tuple(endings))):
                path = Path(parent, name)
                yield inside(root, path) if path.is_symlink() else path


def _name(path: Path, place: Place) -> str:
    for root in (place.path, place.path.resolve()):
        if path.is_relative_to(root):
            return str(path.relative_to(root))
    return path.name


def _unlabelled(place: Place, endings: Sequence[str]) -> Dataset:
    paths = list(paths_below(place.path, endings)) if place.path.is_dir() else [place.path]
    return of_files(place, paths, [None] * len(paths), ())
