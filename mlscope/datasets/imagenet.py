"""ImageNet's validation pictures (ILSVRC 2012), in the layouts that people have on disk.

Classes are those of the usual models: the 1,000 synsets in the order of their numbers.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlscope.datasets.dataset import Dataset, inside, text_lines
from mlscope.datasets.errors import BadField, FileBroken, LayoutMissing, PackageNeeded
from mlscope.datasets.folder import PICTURES, by_folder, labelled_by, of_files, paths_below
from mlscope.datasets.labels import number_of
from mlscope.datasets.place import Place
from mlscope.datasets.truth import Classes, Where

_CLASSES = 1000
_SYNSET = re.compile(r"n\d{8}")
_SYNSET_FILES = ("synset_words.txt", "LOC_synset_mapping.txt", "synsets.txt")
_TRUTHS = "ILSVRC2012_validation_ground_truth.txt"
_FOLDERS = ("val", "ILSVRC2012_img_val", "Data/CLS-LOC/val", ".")


def imagenet(place: Place) -> Dataset:
    """Pictures of `val`, by synset folder, with val.txt, or with the development kit's truths.

    val/n01440764/….JPEG: a folder a class. Fewer than 1,000 folders need synset_words.txt,
    LOC_synset_mapping.txt or synsets.txt, for their places among all.
    val/….JPEG and val.txt: a picture and its class (from 0) a line.
    val/….JPEG and data/ILSVRC2012_validation_ground_truth.txt: the kit's numbers, turned to
    synsets by its data/meta.mat (needs SciPy) or map_clsloc.txt. Raises DatasetError.
    """
    pictures = _pictures(place)
    synsets, classes = _classes(place)
    if any(_SYNSET.fullmatch(each.name) for each in pictures.iterdir() if each.is_dir()):
        return _by_synset(place, pictures, synsets, classes)
    for root in (place.path, pictures):
        if (root / "val.txt").is_file():
            file = inside(place.path, root / "val.txt")
            return labelled_by(place, file, classes, pictures)
    kit = _kit(place)
    if kit is not None:
        return _by_kit(place, pictures, kit, synsets, classes)
    missing = f"has neither synset folders (n01440764, …), val.txt nor {_TRUTHS}"
    raise LayoutMissing(place.path.name, missing, place.options.reader)


def _pictures(place: Place) -> Path:
    for name in _FOLDERS:
        folder = place.path / name
        if folder.is_dir() and next(paths_below(folder, PICTURES, place.path), None) is not None:
            return folder
    raise LayoutMissing(place.path.name, "has no pictures in val", place.options.reader)


def _classes(place: Place) -> tuple[tuple[str, ...], Classes]:
    """Return the synsets in their order, if a file says them, and the classes they are."""
    for name in _SYNSET_FILES:
        file = place.path / name
        if file.is_file():
            lines = text_lines(inside(place.path, file), place.path)
            words = [line.split(None, 1) for line in lines if line.strip()]
            for number, each in enumerate(words, 1):
                if not _SYNSET.fullmatch(each[0]):
                    raise BadField(place.shown(file), f"line {number}", "synset", each[0], "n…")
            words.sort(key=lambda each: each[0])
            # The first of several names is what label files have.
            names = tuple(each[-1].split(",")[0].strip() for each in words)
            return tuple(each[0] for each in words), Classes(names, len(words))
    return (), Classes(count=_CLASSES)


def _by_synset(place: Place, pictures: Path, synsets: tuple[str, ...], classes: Classes) -> Dataset:
    folders = sorted(each.name for each in pictures.iterdir() if each.is_dir())
    if not synsets and len(folders) != _CLASSES:
        missing = f"has {len(folders)} of {_CLASSES} synset folders and none of "
        raise LayoutMissing(place.path.name, missing + ", ".join(_SYNSET_FILES), "imagenet")
    found = by_folder(place, pictures, Classes(synsets))
    if not synsets:
        return found

    def truth(index: int) -> Any:
        known = found.truths[index]
        assert known is not None
        return classes.truth(known.classes[0], known.name, Where(place.path.name, index, "folder"))

    return Dataset(len(found), found.__getitem__, truth, classes.names)


def _kit(place: Place) -> Path | None:
    roots = (place.path, place.path / "data", place.path / "ILSVRC2012_devkit_t12" / "data")
    return next((root for root in roots if (root / _TRUTHS).is_file()), None)


def _by_kit(
    place: Place, pictures: Path, kit: Path, synsets: tuple[str, ...], classes: Classes
) -> Dataset:
    """Return the pictures by number, each with the truth of its line."""
    paths = sorted(paths_below(pictures, PICTURES, place.path), key=lambda each: each.name)
    file = inside(place.path, kit / _TRUTHS)
    shown, lines = place.shown(file), text_lines(file, place.path)
    if len(lines) != len(paths):
        raise FileBroken(shown, f"has {len(lines)} lines for {len(paths)} pictures")
    numbers = _kit_numbers(place, kit)
    order = {synset: at for at, synset in enumerate(synsets or sorted(numbers.values()))}
    truths = []
    for number, line in enumerate(lines, 1):
        record = f"line {number}"
        found = numbers.get(number_of(line.strip(), shown, record, "class"))
        if found is None or found not in order:
            raise BadField(shown, record, "class", line, f"1 to {len(numbers)}")
        truths.append(classes.truth(order[found], "", Where(shown, record, "class")))
    return of_files(place, paths, truths, classes.names)


def _kit_numbers(place: Place, kit: Path) -> Mapping[int, str]:
    """Return the synset of each of the kit's numbers, which are not in the synsets' order."""
    text, table = (inside(place.path, kit / each) for each in ("map_clsloc.txt", "meta.mat"))
    if text.is_file():
        rows = [line.split() for line in text_lines(text, place.path)]
        return _checked(
            {int(row[1]): row[0] for row in rows if len(row) > 1 and row[1].isdecimal()},
            place.shown(text),
        )
    if not table.is_file():
        raise LayoutMissing(kit.name, "has neither meta.mat nor map_clsloc.txt", "imagenet")
    try:
        from scipy.io import loadmat  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise PackageNeeded("imagenet's meta.mat", f"{error}; install SciPy") from error
    try:
        rows = loadmat(table, squeeze_me=True)["synsets"]
        return _checked(dict(_leaves(rows)), place.shown(table))
    except (ValueError, TypeError, KeyError, IndexError, NotImplementedError) as error:
        raise FileBroken(place.shown(table), f"no table of synsets: {error}") from error


def _leaves(rows: Any) -> Sequence[tuple[int, str]]:
    """Return number and synset of the classes; the other rows are their groups."""
    pairs = ((int(row["ILSVRC2012_ID"]), str(row["WNID"])) for row in rows)
    return [pair for pair in pairs if pair[0] <= _CLASSES]


def _checked(numbers: Mapping[int, str], shown: str) -> Mapping[int, str]:
    if not numbers or not all(_SYNSET.fullmatch(each) for each in numbers.values()):
        raise FileBroken(shown, "holds no synsets")
    return numbers
