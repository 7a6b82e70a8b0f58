"""ImageNet's validation pictures (ILSVRC 2012), in the layouts that people have on disk.

Classes are those of the usual models: the 1,000 synsets in the order of their numbers.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mlscope.datasets.dataset import Dataset, require_below, text_lines
from mlscope.datasets.errors import BadField, FileBroken, LayoutMissing, PackageNeeded
from mlscope.datasets.labels import parse_integer
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.readers.folder import (
    PICTURE_SUFFIXES,
    dataset_of_class_folders,
    dataset_of_files,
    dataset_of_label_file,
    paths_below,
)
from mlscope.datasets.truth import Classes, LabelLocation, Truth

_CLASSES = 1000
_SYNSET = re.compile(r"n\d{8}")
_SYNSET_FILES = ("synset_words.txt", "LOC_synset_mapping.txt", "synsets.txt")
_TRUTH_FILE = "ILSVRC2012_validation_ground_truth.txt"
_PICTURE_FOLDERS = ("val", "ILSVRC2012_img_val", "Data/CLS-LOC/val", ".")
_KIT_FOLDERS = (".", "data", "ILSVRC2012_devkit_t12/data")


def imagenet(source: ReaderInput) -> Dataset:
    """Pictures of `val`, by synset folder, with val.txt, or with the development kit's truths.

    val/n01440764/….JPEG: a folder a class. With fewer than 1,000 folders their classes come from
    synset_words.txt, LOC_synset_mapping.txt or synsets.txt.
    val/….JPEG and val.txt: a picture and its class (from 0) a line.
    val/….JPEG and data/ILSVRC2012_validation_ground_truth.txt: the kit's numbers, which its
    data/meta.mat (needs SciPy) or map_clsloc.txt maps to synsets. Raises DatasetError.
    """
    folders = [source.path / name for name in _PICTURE_FOLDERS if (source.path / name).is_dir()]
    pictures = next(
        (f for f in folders if any(paths_below(f, PICTURE_SUFFIXES, source.path))), None
    )
    if pictures is None:
        raise LayoutMissing(source.path.name, "has no pictures in val", source.options.reader)
    synsets, classes = _read_classes(source)
    if any(_SYNSET.fullmatch(path.name) for path in pictures.iterdir() if path.is_dir()):
        return _read_synset_folders(source, pictures, synsets, classes)
    for root in (source.path, pictures):
        if (root / "val.txt").is_file():
            file = require_below(source.path, root / "val.txt")
            return dataset_of_label_file(source, file, classes, pictures)
    for name in _KIT_FOLDERS:
        if (source.path / name / _TRUTH_FILE).is_file():
            kit = source.path / name
            return _read_with_kit(source, pictures, kit, synsets, classes)
    missing = f"has neither synset folders (n01440764, …), val.txt nor {_TRUTH_FILE}"
    raise LayoutMissing(source.path.name, missing, source.options.reader)


def _read_classes(source: ReaderInput) -> tuple[tuple[str, ...], Classes]:
    """Return the synsets of a synset file in their order, () without one, and the classes."""
    files = (source.path / name for name in _SYNSET_FILES)
    file = next(filter(Path.is_file, files), None)
    if file is None:
        return (), Classes(count=_CLASSES)
    lines = text_lines(require_below(source.path, file), source.path)
    entries = [line.split(None, 1) for line in lines if line.strip()]
    for number, (synset, *_) in enumerate(entries, 1):
        if not _SYNSET.fullmatch(synset):
            raise BadField(source.shown(file), f"line {number}", "synset", synset, "n…")
    entries.sort(key=lambda entry: entry[0])
    # Label files have the first of a synset's names.
    names = tuple(entry[-1].split(",")[0].strip() for entry in entries)
    return tuple(entry[0] for entry in entries), Classes(names, len(entries))


def _read_synset_folders(
    source: ReaderInput, pictures: Path, synsets: tuple[str, ...], classes: Classes
) -> Dataset:
    """Return the pictures of one folder a synset; without `synsets` all 1,000 must be there."""
    count = sum(path.is_dir() for path in pictures.iterdir())
    if not synsets and count != _CLASSES:
        missing = f"has {count} of {_CLASSES} synset folders and none of "
        raise LayoutMissing(source.path.name, missing + ", ".join(_SYNSET_FILES), "imagenet")
    by_synset = dataset_of_class_folders(source, pictures, Classes(synsets))
    if not synsets:
        return by_synset

    def truth(index: int) -> Truth:
        synset = by_synset.truths[index]
        assert synset is not None
        location = LabelLocation(source.path.name, index, "folder")
        return classes.truth_of_index(synset.classes[0], synset.name, location)

    return Dataset(len(by_synset), by_synset.__getitem__, truth, classes.names)


def _read_with_kit(
    source: ReaderInput, pictures: Path, kit: Path, synsets: tuple[str, ...], classes: Classes
) -> Dataset:
    """Return the pictures in the order of their names, with the classes in the kit's lines.

    A class is the position of its synset among `synsets`, or, without these, among the kit's.
    Raises FileBroken, BadField, LayoutMissing, PackageNeeded.
    """
    paths = sorted(paths_below(pictures, PICTURE_SUFFIXES, source.path), key=lambda path: path.name)
    truth_file = require_below(source.path, kit / _TRUTH_FILE)
    file, lines = source.shown(truth_file), text_lines(truth_file, source.path)
    if len(lines) != len(paths):
        raise FileBroken(file, f"has {len(lines)} lines for {len(paths)} pictures")
    synset_by_number = _kit_synsets(source, kit)
    ordered = synsets or sorted(synset_by_number.values())
    index_by_synset = {synset: index for index, synset in enumerate(ordered)}
    truths = []
    for number, line in enumerate(lines, 1):
        location = LabelLocation(file, f"line {number}", "class")
        kit_number = parse_integer(line.strip(), *location)
        index = index_by_synset.get(synset_by_number.get(kit_number, ""))
        if index is None:
            raise BadField(*location, line, f"1 to {len(synset_by_number)}")
        truths.append(classes.truth_of_index(index, "", location))
    return dataset_of_files(source, paths, truths, classes.names)


def _kit_synsets(source: ReaderInput, kit: Path) -> Mapping[int, str]:
    """Return the synset of each of the kit's numbers, which do not follow the synsets' order.

    Raises LayoutMissing, PackageNeeded, FileBroken.
    """
    text_file, mat_file = (
        require_below(source.path, kit / name) for name in ("map_clsloc.txt", "meta.mat")
    )
    if text_file.is_file():
        rows = [line.split() for line in text_lines(text_file, source.path)]
        pairs = [(row[1], row[0]) for row in rows if len(row) > 1 and row[1].isdecimal()]
        return _checked_synsets(pairs, source.shown(text_file))
    if not mat_file.is_file():
        raise LayoutMissing(kit.name, "has neither meta.mat nor map_clsloc.txt", "imagenet")
    try:
        from scipy.io import loadmat  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        reason = f"{error}; pip install 'mlscope[datasets]'"
        raise PackageNeeded("imagenet's meta.mat", reason) from error
    try:
        entries: Any = loadmat(mat_file, squeeze_me=True)["synsets"]
        pairs = [(entry["ILSVRC2012_ID"], entry["WNID"]) for entry in entries]
        # The entries above 1,000 are groups of synsets.
        leaves = [(number, synset) for number, synset in pairs if int(number) <= _CLASSES]
        return _checked_synsets(leaves, source.shown(mat_file))
    except (ValueError, TypeError, KeyError, IndexError, NotImplementedError) as error:
        raise FileBroken(source.shown(mat_file), f"no table of synsets: {error}") from error


def _checked_synsets(pairs: Iterable[tuple[Any, Any]], file: str) -> Mapping[int, str]:
    synset_by_number = {int(number): str(synset) for number, synset in pairs}
    if not synset_by_number or not all(map(_SYNSET.fullmatch, synset_by_number.values())):
        raise FileBroken(file, "holds no synsets")
    return synset_by_number
