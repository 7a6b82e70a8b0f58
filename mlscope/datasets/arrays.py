"""NumPy files, mapped into memory: .npy, and .npz whose members are unpacked beside them first."""

import shutil
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from mlscope.datasets.dataset import Dataset, inside, needed
from mlscope.datasets.errors import BadField, BadOption, BadRecord, FileBroken
from mlscope.datasets.labels import classes_of
from mlscope.datasets.place import Place
from mlscope.datasets.truth import Classes, Truth, Where

Array = npt.NDArray[Any]
_MOST_BYTES = 64 << 30
_MOST_SMALL_BYTES = 1 << 30
_MOST_RATIO = 100
_BLOCK_BYTES = 1 << 20


def arrays(place: Place) -> Dataset:
    """Tensors by their first dimension: a .npy, a folder of them, or a .npz.

    `samples` names the array (samples, x or images), `labels` that of whole numbers (labels or y,
    where there is one; one dimension), `inputs` {input: array} several of a model's inputs.
    Pickled objects are refused. A sample with NaN is no good unless `allow_nan`. `class_names`
    and `classes` as for folders. Raises DatasetError.
    """
    options = place.options
    allow_nan = options.flag("allow_nan", default=False)
    inputs = {str(name): str(array) for name, array in options.below("inputs").items()}
    wanted, labels = options.text("samples"), options.text("labels")
    classes = classes_of(place)
    held, close = _held(place)
    if inputs:
        chosen = {name: _named(held, array, (), place) for name, array in inputs.items()}
    else:
        names = ("samples", "x", "images") if len(held) > 1 else tuple(held)
        chosen = {"": _named(held, wanted, names, place)}
    known = _labels(held, labels, place)
    count = _count(chosen, known, place)

    def sample(index: int) -> Any:
        parts = {
            name: _checked(array[index], place, index, name, allow_nan=allow_nan)
            for name, array in chosen.items()
        }
        return parts.get("", parts)

    def truth(index: int) -> Truth | None:
        return None if known is None else _truth(known[index], classes, place, index)

    return Dataset(count, sample, truth, classes.names, close)


def mapped(path: Path, shown: str) -> Array:
    """Return a .npy file's array, mapped into memory. Raises FileBroken."""
    try:
        found: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise FileBroken(shown, f"no .npy of numbers: {error}") from error
    if not isinstance(found, np.ndarray):
        raise FileBroken(shown, "no .npy of numbers: an archive")
    return found


def _held(place: Place) -> tuple[Mapping[str, Array], Any]:
    if place.path.is_dir():
        found = {each.stem: each for each in sorted(place.path.glob("*.npy"))}
        if not found:
            needed(place.path, place.options.reader, "*.npy")
        inner = {name: inside(place.path, path) for name, path in found.items()}
        return {name: mapped(path, place.shown(path)) for name, path in inner.items()}, _nothing
    with place.path.open("rb") as file:
        is_archive = file.read(4) == b"PK\x03\x04"
    if is_archive:
        return _unpacked(place)
    return {"samples": mapped(place.path, place.shown(place.path))}, _nothing


def _nothing() -> None:
    pass


def _unpacked(place: Place) -> tuple[Mapping[str, Array], Any]:
    """Return a .npz file's arrays, each in a file that vanishes. Raises FileBroken."""
    found, shown = {}, place.shown(place.path)
    try:
        with zipfile.ZipFile(place.path) as archive:
            most = max(_MOST_SMALL_BYTES, _MOST_RATIO * place.path.stat().st_size)
            most = min(_MOST_BYTES, most)
            if sum(each.file_size for each in archive.infolist()) > most:
                raise FileBroken(shown, f"holds more than {most} bytes")
            for member in archive.infolist():
                with place.room() as room, archive.open(member) as packed:
                    shutil.copyfileobj(packed, room, _BLOCK_BYTES)
                    name = member.filename.removesuffix(".npy")
                    found[name] = _array_in(room, f"{shown}/{member.filename}")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise FileBroken(shown, f"no .npz: {error}") from error
    return found, _nothing


def _array_in(room: IO[bytes], shown: str) -> Array:
    """Return the array in an open .npy file, mapped into memory. Raises FileBroken."""
    room.seek(0)
    try:
        version = np.lib.format.read_magic(room)
        read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
            version, np.lib.format.read_array_header_2_0
        )
        shape, is_fortran, kind = read(room)
        if kind.hasobject:
            raise ValueError("pickled objects are not read")
        order: Any = "F" if is_fortran else "C"
        if not all(shape):
            return np.empty(shape, kind)
        return np.memmap(room, kind, "r", room.tell(), shape, order)
    except ValueError as error:
        raise FileBroken(shown, f"no .npy of numbers: {error}") from error


def _named(held: Mapping[str, Array], wanted: str, usual: tuple[str, ...], place: Place) -> Array:
    for name in (wanted,) if wanted else usual:
        if name in held:
            array = held[name]
            if array.dtype.kind not in "fiub":
                raise FileBroken(place.shown(place.path), f"{name} is {array.dtype}, no numbers")
            if not array.ndim:
                raise FileBroken(place.shown(place.path), f"{name} is one number, no samples")
            return array
    found = wanted or f"none of {', '.join(usual)}"
    raise BadOption(place.options.reader, "samples", found, f"one of {', '.join(held)}")


def _labels(held: Mapping[str, Array], wanted: str, place: Place) -> Array | None:
    usual = ("labels", "y")
    if not wanted and not any(name in held for name in usual):
        return None
    labels = _named(held, wanted, usual, place)
    if labels.ndim != 1:
        allowed = "labels of one dimension"
        raise BadOption(place.options.reader, "labels", list(labels.shape), allowed)
    return labels


def _count(chosen: Mapping[str, Array], labels: Array | None, place: Place) -> int:
    several = {name or "samples": len(array) for name, array in chosen.items()}
    if labels is not None:
        several["labels"] = len(labels)
    counts = set(several.values())
    if len(counts) > 1:
        found = ", ".join(f"{count} {name}" for name, count in several.items())
        raise FileBroken(place.shown(place.path), f"holds {found}: as many of each are needed")
    return counts.pop()


def _checked(sample: Array, place: Place, index: int, name: str, *, allow_nan: bool) -> Array:
    if sample.dtype.kind == "f" and not allow_nan and np.isnan(sample).any():
        raise BadField(
            place.shown(place.path), index, name or "sample", "NaN", "numbers (or `allow_nan`)"
        )
    return np.asarray(sample)


def _truth(label: Any, classes: Classes, place: Place, index: int) -> Truth:
    shown = place.shown(place.path)
    if not float(label).is_integer():
        if np.isnan(label):
            raise BadRecord(shown, index, "its label is NaN")
        return Truth(str(index), values=np.array([label], np.float64))
    return classes.truth(int(label), str(index), Where(shown, index))
