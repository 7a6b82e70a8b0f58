"""Paired folders: pictures, and for each a file of the same name with its classes or its target."""

from dataclasses import replace
from pathlib import Path

from mlscope.datasets.dataset import Dataset, file_bytes, first_existing
from mlscope.datasets.errors import LayoutMissing
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.readers.folder import PICTURE_SUFFIXES, dataset_of_files, paths_below
from mlscope.datasets.truth import Truth

PICTURE_FOLDER = "images"
TARGET_FOLDERS = ("targets", "labels", "masks", "annotations")


def paired_folders(source: ReaderInput) -> Dataset:
    """Pictures of the folder `images`, with the files of the same name in the folder `targets`.

    A target is what an output should be: a map of classes (palette indices, as VOC's, or grey
    values; 255 is not labelled) or a picture. `targets` is by default the first that exists of
    targets, labels, masks, annotations. A name is the path below the folder without its ending;
    pictures without a target are left out, as VOC's JPEGImages without a map. Raises DatasetError.
    """
    options = source.options
    picture_folder = options.text("images", PICTURE_FOLDER)
    pictures = first_existing(source.path, options.reader, picture_folder)
    target_folder = options.text("targets")
    target_names = [target_folder] if target_folder else TARGET_FOLDERS
    target_root = first_existing(source.path, options.reader, *target_names)
    # Of two files of one name the later ending counts, as PNG, which loses nothing.
    targets = {
        _pair_name(path, target_root): path
        for path in paths_below(target_root, PICTURE_SUFFIXES, source.path)
    }
    paths = [
        path
        for path in paths_below(pictures, PICTURE_SUFFIXES, source.path)
        if _pair_name(path, pictures) in targets
    ]
    if not paths:
        missing = f"no picture in {pictures.name} has a target of its name in {target_root.name}"
        raise LayoutMissing(source.path.name, missing, options.reader)
    unpaired = dataset_of_files(source, paths, [Truth()] * len(paths), ())

    def truth(index: int) -> Truth | None:
        named, target = unpaired.truths[index], targets[_pair_name(paths[index], pictures)]
        return named and replace(named, picture=file_bytes(target, source.path, index))

    return Dataset(len(paths), unpaired.__getitem__, truth)


def is_paired(folder: Path) -> bool:
    """Return whether a folder has pictures in `images` and in a folder of targets."""
    return _has_pictures(folder / PICTURE_FOLDER) and any(
        _has_pictures(folder / name) for name in TARGET_FOLDERS
    )


def _has_pictures(folder: Path) -> bool:
    return folder.is_dir() and next(paths_below(folder, PICTURE_SUFFIXES), None) is not None


def _pair_name(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder).with_suffix(""))
