"""Paired folders: pictures, and beside them a map of classes or a picture for each, by its name."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mlscope.datasets.dataset import Dataset, file_bytes, needed
from mlscope.datasets.errors import LayoutMissing
from mlscope.datasets.folder import PICTURES, of_files, paths_below
from mlscope.datasets.place import Place
from mlscope.datasets.truth import Truth

PICTURES_BELOW = "images"
TARGETS_BELOW = ("targets", "labels", "masks", "annotations")


def paired_folders(place: Place) -> Dataset:
    """Pictures of `images` (a folder's name) with the files of `targets` of the same name.

    A target is what an output should be: a map of classes (a palette's indices, as VOC's, or grey
    values; 255 is not labelled) or a picture. `targets` is the first there is of targets, labels,
    masks, annotations. Names are paths below the folder without their ending; pictures without a
    target are left out, as VOC's JPEGImages without a map. Raises DatasetError.
    """
    options = place.options
    pictures = needed(place.path, options.reader, options.text("images", PICTURES_BELOW))
    given = options.text("targets")
    beside = needed(place.path, options.reader, *([given] if given else TARGETS_BELOW))
    targets = _by_name(beside, place)
    paths = [
        path
        for path in paths_below(pictures, PICTURES, place.path)
        if _name(path, pictures) in targets
    ]
    if not paths:
        missing = f"has no picture in {pictures.name} with a target of its name in {beside.name}"
        raise LayoutMissing(place.path.name, missing, options.reader)
    plain = of_files(place, paths, [Truth()] * len(paths), ())

    def truth(index: int) -> Truth | None:
        named, target = plain.truths[index], targets[_name(paths[index], pictures)]
        return named and replace(named, picture=file_bytes(target, place.path, index))

    return Dataset(len(paths), plain.__getitem__, truth)


def are_paired(folder: Path) -> bool:
    """Say whether there are pictures in `images` and in a folder of targets beside it."""
    is_there = (folder / PICTURES_BELOW).is_dir() and _has_pictures(folder / PICTURES_BELOW)
    return is_there and any(_has_pictures(folder / name) for name in TARGETS_BELOW)


def _has_pictures(folder: Path) -> bool:
    return folder.is_dir() and next(paths_below(folder, PICTURES), None) is not None


def _by_name(folder: Path, place: Place) -> Mapping[str, Path]:
    """Return targets by their name; of two endings the later, as PNG, which loses nothing."""
    return {_name(path, folder): path for path in paths_below(folder, PICTURES, place.path)}


def _name(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder).with_suffix(""))
