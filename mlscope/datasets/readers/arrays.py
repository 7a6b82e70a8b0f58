"""NumPy files, mapped into memory: .npy, and .npz whose members are unpacked first."""

import shutil
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from mlscope.datasets.dataset import Dataset, first_existing, require_below
from mlscope.datasets.errors import BadField, BadOption, BadRecord, FileBroken
from mlscope.datasets.labels import classes_of
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.truth import LabelLocation, Truth

Array = npt.NDArray[Any]
_USUAL = ("samples", "x", "images")
_MOST_BYTES = 64 << 30
_MOST_SMALL_BYTES = 1 << 30
_MOST_RATIO = 100
_BLOCK_BYTES = 1 << 20


def arrays(source: ReaderInput) -> Dataset:
    """Tensors by their first dimension: a .npy, a folder of named ones, or a .npz.

    In a folder of several .npy without one of the usual names, and without the options `samples`
    and `inputs`, each file is one sample, in the order of their names.

    `samples` names the array (samples, x or images), `labels` the one-dimensional array of integers
    (labels or y, where there is one), `inputs` {input: array} those of several inputs. Pickled
    objects are refused. A sample with NaN is an error unless `allow_nan`. `class_names` and
    `classes` as for folders. Raises DatasetError.
    """
    options = source.options
    inputs = {str(name): str(array) for name, array in options.mapping("inputs").items()}
    names = _Names(inputs, options.text("samples"), options.text("labels"))
    allow_nan = options.flag("allow_nan", default=False)
    files = [] if names.inputs or names.samples or names.labels else _sample_files(source)
    if files:
        return Dataset(len(files), partial(_sample_of, files, source, allow_nan), lambda _: None)
    return _named_arrays(source, names, allow_nan=allow_nan)


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of the arrays that the options choose; '' without an option."""

    inputs: Mapping[str, str]
    samples: str
    labels: str


def _named_arrays(source: ReaderInput, names: _Names, *, allow_nan: bool) -> Dataset:
    """Return a dataset of arrays by name, as `arrays` describes them."""
    file = source.shown(source.path)
    classes = classes_of(source)
    stored = _stored_arrays(source)
    if names.inputs:
        named = names.inputs.items()
        chosen = {name: _choose(stored, array, (), source) for name, array in named}
    else:
        usual = _USUAL if len(stored) > 1 else tuple(stored)
        chosen = {"": _choose(stored, names.samples, usual, source)}
    labels = _labels(stored, names.labels, source)
    lengths = {name or "samples": len(array) for name, array in chosen.items()}
    if labels is not None:
        lengths["labels"] = len(labels)
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{count} {name}" for name, count in lengths.items())
        raise FileBroken(file, f"holds {counts}: as many of each are needed")

    def sample(index: int) -> Any:
        tensors = {name: np.asarray(array[index]) for name, array in chosen.items()}
        for name, tensor in tensors.items():
            if tensor.dtype.kind == "f" and not allow_nan and np.isnan(tensor).any():
                raise BadField(file, index, name or "sample", "NaN", "numbers (or `allow_nan`)")
        return tensors.get("", tensors)

    def truth(index: int) -> Truth | None:
        if labels is None:
            return None
        label: Any = labels[index]
        if np.isnan(label):
            raise BadRecord(file, index, "its label is NaN")
        if not float(label).is_integer():
            return Truth(str(index), values=np.array([label], np.float64))
        return classes.truth_of_index(int(label), str(index), LabelLocation(file, index))

    return Dataset(next(iter(lengths.values())), sample, truth, classes.names)


def _sample_files(source: ReaderInput) -> list[Path]:
    """Return the .npy files of a folder, each of which is one sample; [] for named arrays."""
    paths = sorted(source.path.glob("*.npy")) if source.path.is_dir() else []
    if len(paths) < 2 or any(path.stem in (*_USUAL, "labels", "y") for path in paths):
        return []
    return [require_below(source.path, path) for path in paths]


def _sample_of(files: list[Path], source: ReaderInput, allow_nan: bool, index: int) -> Array:
    """Return one sample, whose file is opened when it is needed. Raises FileBroken, BadField."""
    name = source.shown(files[index])
    tensor = np.asarray(map_npy(files[index], name))
    if tensor.dtype.kind not in "fiub":
        raise FileBroken(name, f"holds {tensor.dtype}, not numbers")
    if tensor.dtype.kind == "f" and not allow_nan and np.isnan(tensor).any():
        raise BadField(name, index, "sample", "NaN", "numbers (or `allow_nan`)")
    return tensor


def map_npy(path: Path, name: str) -> Array:
    """Return a .npy file's array, mapped into memory. Raises FileBroken, which calls it `name`."""
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise FileBroken(name, f"not a .npy file of numbers: {error}") from error
    if not isinstance(array, np.ndarray):
        raise FileBroken(name, "not a .npy file of numbers: an archive")
    return array


def _stored_arrays(source: ReaderInput) -> Mapping[str, Array]:
    """Return the arrays by name of a folder, a .npz or a .npy. Raises LayoutMissing, FileBroken."""
    if source.path.is_dir():
        paths = sorted(source.path.glob("*.npy"))
        if not paths:
            first_existing(source.path, source.options.reader, "*.npy")
        paths = [require_below(source.path, path) for path in paths]
        return {path.stem: map_npy(path, source.shown(path)) for path in paths}
    with source.path.open("rb") as file:
        is_archive = file.read(4) == b"PK\x03\x04"
    if is_archive:
        return _unpack_npz(source)
    return {"samples": map_npy(source.path, source.shown(source.path))}


def _unpack_npz(source: ReaderInput) -> Mapping[str, Array]:
    """Return a .npz file's arrays, each in a scratch file. Raises FileBroken.

    An archive that unpacks to more than 1 GiB and 100 times its own size is refused, and so is one
    packed by bzip2 or LZMA: `zipfile` unpacks gigabytes of these at once.
    """
    columns, name = {}, source.shown(source.path)
    try:
        with zipfile.ZipFile(source.path) as archive:
            most_bytes = max(_MOST_SMALL_BYTES, _MOST_RATIO * source.path.stat().st_size)
            most_bytes = min(_MOST_BYTES, most_bytes)
            if sum(member.file_size for member in archive.infolist()) > most_bytes:
                raise FileBroken(name, f"holds more than {most_bytes} bytes")
            for member in archive.infolist():
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise FileBroken(name, "is packed by a rare method; use np.savez_compressed")
                with source.scratch_file() as scratch, archive.open(member) as packed:
                    shutil.copyfileobj(packed, scratch, _BLOCK_BYTES)
                    array = map_open_npy(scratch, f"{name}/{member.filename}")
                    columns[member.filename.removesuffix(".npy")] = array
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise FileBroken(name, f"not a .npz file: {error}") from error
    return columns


def map_open_npy(file: IO[bytes], name: str) -> Array:
    """Return the array in an open .npy `file`, mapped into memory.

    Raises FileBroken, which calls the file `name`.
    """
    file.seek(0)
    try:
        version = np.lib.format.read_magic(file)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0}.get(
            version, np.lib.format.read_array_header_2_0
        )
        shape, is_fortran, element_type = read_header(file)
        if element_type.hasobject:
            raise ValueError("pickled objects are not read")
        order: Any = "F" if is_fortran else "C"
        if not all(shape):
            return np.empty(shape, element_type)
        return np.memmap(file, element_type, "r", file.tell(), shape, order)
    except ValueError as error:
        raise FileBroken(name, f"not a .npy file of numbers: {error}") from error


def _choose(
    stored: Mapping[str, Array], name: str, usual: tuple[str, ...], source: ReaderInput
) -> Array:
    """Return the array `name`, or without a name the first of the `usual` ones.

    Raises BadOption where there is none, and FileBroken where it has no samples of numbers.
    """
    names = (name,) if name else usual
    chosen = next((candidate for candidate in names if candidate in stored), None)
    if chosen is None:
        value = name or f"none of {', '.join(usual)}"
        raise BadOption(source.options.reader, "samples", value, f"one of {', '.join(stored)}")
    array = stored[chosen]
    if array.dtype.kind not in "fiub":
        raise FileBroken(source.shown(source.path), f"{chosen} is {array.dtype}, not numbers")
    if not array.ndim:
        raise FileBroken(source.shown(source.path), f"{chosen} is a single number, not samples")
    return array


def _labels(stored: Mapping[str, Array], name: str, source: ReaderInput) -> Array | None:
    """Return the array of labels, or None where there is none. Raises BadOption, FileBroken."""
    usual = ("labels", "y")
    if not name and not any(usual_name in stored for usual_name in usual):
        return None
    labels = _choose(stored, name, usual, source)
    if labels.ndim != 1:
        expected = "labels of one dimension"
        raise BadOption(source.options.reader, "labels", list(labels.shape), expected)
    return labels
