"""Folders of files: one folder a class, a file of labels, or no labels at all."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mlscope.datasets.dataset import (
    Dataset,
    file_bytes,
    first_existing,
    require_below,
    resolve_below,
)
from mlscope.datasets.errors import LayoutMissing
from mlscope.datasets.labels import classes_of, is_class_index, labelled_samples, truth_of
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.truth import Classes, LabelLocation, Truth

PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
LABEL_FILES = ("labels.csv", "labels.txt")


def image_folder(source: ReaderInput) -> Dataset:
    """Pictures with labels: class folders, or a file of labels beside flat pictures.

    With one folder a class, classes are the folders in the order of their names, and pictures come
    in the order of their paths. Otherwise the file `labels` (labels.csv or labels.txt) has a
    picture and its label a line. A label is a class's index, or its name; names count in the order
    of `class_names`, or of the alphabet. `classes` is the number of classes. `labelled: false`
    needs no labels. Raises DatasetError.
    """
    options = source.options
    labels_file, is_labelled = options.text("labels"), options.flag("labelled", default=True)
    classes = classes_of(source)
    if not is_labelled:
        return _unlabelled(source, PICTURE_SUFFIXES)
    if labels_file or any((source.path / name).is_file() for name in LABEL_FILES):
        names = [labels_file] if labels_file else LABEL_FILES
        path = first_existing(source.path, options.reader, *names)
        return dataset_of_label_file(source, path, classes, source.path)
    return dataset_of_class_folders(source, source.path, classes)


def files(source: ReaderInput) -> Dataset:
    """Any files, in the order of their paths, without labels. `endings` selects some."""
    return _unlabelled(source, source.options.texts("endings"))


def dataset_of_class_folders(source: ReaderInput, root: Path, classes: Classes) -> Dataset:
    """Return the pictures of the class folders below `root`; `classes` may name and order them.

    `source` is the folder and the options that the reader was asked for. Raises LayoutMissing,
    BadField, PathEscapes.
    """
    folders = _visible(path.name for path in root.iterdir() if path.is_dir())
    if not folders:
        missing = (
            f"has neither class folders nor {' or '.join(LABEL_FILES)} "
            "(`labelled: false` needs no labels)"
        )
        raise LayoutMissing(source.path.name, missing, source.options.reader)
    classes = classes if classes.names else Classes(tuple(folders), classes.count)
    pictures: list[Path] = []
    truths: list[Truth] = []
    for folder in folders:
        location = LabelLocation(source.path.name, folder, "folder")
        truth = classes.truth_of_name(folder, folder, location)
        paths = list(paths_below(root / folder, PICTURE_SUFFIXES, source.path))
        pictures += paths
        truths += [truth] * len(paths)
    return dataset_of_files(source, pictures, truths, classes.names)


def dataset_of_label_file(
    source: ReaderInput, label_file: Path, classes: Classes, pictures: Path
) -> Dataset:
    """Return the pictures that `label_file` names, paths below the folder `pictures`.

    Their labels are names or indices of `classes`; errors name files as `source` shows them. Raises
    DatasetError.
    """
    file = source.shown(label_file)
    rows = list(labelled_samples(label_file, source.path))
    if not classes.names and not all(is_class_index(label) for _, _, label in rows):
        classes = Classes(tuple(sorted({label for _, _, label in rows})), classes.count)
    paths, truths = [], []
    for number, name, label in rows:
        record = f"line {number}"
        paths.append(resolve_below(pictures, name, file, record))
        truths.append(truth_of(label, classes, name, LabelLocation(file, record)))
    return dataset_of_files(source, paths, truths, classes.names)


def dataset_of_files(
    source: ReaderInput, paths: Sequence[Path], truths: Sequence[Truth | None], names: Sequence[str]
) -> Dataset:
    """Return a dataset with the files `paths` as samples and their `truths`.

    The name in each truth is its file's path below the folder of `source`: a sample without a truth
    has one that is only a name. `names` are the class names.
    """
    roots = (source.path, source.path.resolve()) if source.path.is_dir() else ()

    def truth(index: int) -> Truth:
        path = paths[index]
        root = next((root for root in roots if path.is_relative_to(root)), path.parent)
        return replace(truths[index] or Truth(), name=path.relative_to(root).as_posix())

    return Dataset(
        len(paths), lambda index: file_bytes(paths[index], source.path, index), truth, names
    )


def paths_below(folder: Path, endings: Sequence[str], root: Path | None = None) -> Iterator[Path]:
    """Yield the files below `folder` with one of the `endings` (all, if none), in order.

    Leaves out names that begin with a dot, and `__MACOSX`, and does not follow links to folders.
    Raises PathEscapes where the folder, or a file, is a link out of `root` (by default the folder
    itself).
    """
    root = root or folder
    require_below(root, folder)
    for parent, folders, names in os.walk(folder):
        folders[:] = _visible(folders)
        for name in _visible(names):
            if not endings or name.lower().endswith(tuple(endings)):
                path = Path(parent, name)
                yield require_below(root, path) if path.is_symlink() else path


def _unlabelled(source: ReaderInput, endings: Sequence[str]) -> Dataset:
    paths = list(paths_below(source.path, endings)) if source.path.is_dir() else [source.path]
    return dataset_of_files(source, paths, [None] * len(paths), ())


def _visible(names: Iterable[str]) -> list[str]:
    """Return the names in order, without those that begin with a dot or that macOS adds."""
    return sorted(name for name in names if not name.startswith(".") and name != "__MACOSX")
