"""What a reader returns: samples and truths by index, read when asked for."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from mlscope.datasets.errors import BadRecord, FileBroken, LayoutMissing, PathEscapes
from mlscope.datasets.truth import Truth

T = TypeVar("T")

MOST_SAMPLE_BYTES = 1 << 30
MOST_TEXT_BYTES = 256 << 20
MOST_JSON_BYTES = 512 << 20
"""COCO's largest (instances_train2017.json) has 448 MB, SQuAD's 42 MB; in memory more."""


class Lazily(Sequence[T], Generic[T]):
    """A sequence whose elements a function makes as they are asked for; none is kept."""

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        """Return one element, or several; raises what making it raises."""
        if isinstance(index, slice):
            places = range(*index.indices(self._count))
            return Lazily(len(places), lambda at: self._make(places[at]))
        place = index + self._count if index < 0 else index
        if not 0 <= place < self._count:
            raise IndexError(index)
        return self._make(place)

    def __iter__(self) -> Iterator[T]:
        return (self._make(index) for index in range(self._count))


class Dataset(Lazily[Any]):
    """Samples as a pipeline takes them: bytes, text, arrays, or a map of those by input.

    Reading one raises DatasetError, and only that one is lost. `truths` has an entry for each
    sample, None where nothing is known; `classes` are their names by index.
    """

    def __init__(
        self,
        count: int,
        sample: Callable[[int], Any],
        truth: Callable[[int], Truth | None],
        classes: Sequence[str] = (),
        close: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(count, sample)
        self.truths: Sequence[Truth | None] = Lazily(count, truth)
        self.classes = tuple(classes)
        self._sample, self._truth, self._close = sample, truth, close

    def first(self, most: int) -> "Dataset":
        """Return the first samples, at most so many; 0 is all. It is closed as the whole."""
        count = min(len(self), most) if most else len(self)
        return Dataset(count, self._sample, self._truth, self.classes, self._close)

    def close(self) -> None:
        """Let go of open files; again does no harm."""
        self._close()


def file_bytes(path: Path, root: Path, record: int | str) -> bytes:
    """Return a sample's file. Raises BadRecord, which calls it by its path below `root`."""
    try:
        body = _bounded(path, MOST_SAMPLE_BYTES)
    except OSError as error:
        raise BadRecord(shown(path, root), record, error.strerror or str(error)) from error
    if len(body) > MOST_SAMPLE_BYTES:
        raise BadRecord(shown(path, root), record, f"is larger than {MOST_SAMPLE_BYTES} bytes")
    return body


def text_lines(path: Path, root: Path) -> list[str]:
    """Return a text file's lines without the empty ones at its end. Raises FileBroken."""
    try:
        body = _bounded(path, MOST_TEXT_BYTES)
        if len(body) > MOST_TEXT_BYTES:
            raise FileBroken(shown(path, root), f"is larger than {MOST_TEXT_BYTES} bytes")
        lines = body.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise FileBroken(shown(path, root), f"no UTF-8 text: {error}") from error
    except OSError as error:
        raise FileBroken(shown(path, root), error.strerror or str(error)) from error
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def json_in(path: Path, root: Path) -> Any:
    """Return what a JSON file holds; `root` is the dataset's. Raises FileBroken."""
    name = shown(path, root)
    try:
        if path.stat().st_size > MOST_JSON_BYTES:
            raise FileBroken(name, f"is larger than {MOST_JSON_BYTES} bytes")
        return json.loads(_bounded(path, MOST_JSON_BYTES))
    except (ValueError, RecursionError) as error:
        raise FileBroken(name, f"no JSON: {error}") from error
    except OSError as error:
        raise FileBroken(name, error.strerror or str(error)) from error


def _bounded(path: Path, most_bytes: int) -> bytes:
    """Return a file's bytes, at most one more than `most_bytes`."""
    with path.open("rb") as file:
        # All that a read may return is allocated first: no more than the file has.
        return file.read(min(os.fstat(file.fileno()).st_size, most_bytes) + 1)


def below(root: Path, path: str, file: str, record: int | str) -> Path:
    """Return a path that a record names. Raises PathEscapes where it leads out of `root`."""
    try:
        found = (root / path).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links, a NUL
        raise PathEscapes(file, record, path) from error
    if Path(path).is_absolute() or not found.is_relative_to(root.resolve()):
        raise PathEscapes(file, record, path)
    return found


def inside(root: Path, path: Path) -> Path:
    """Return a file of a dataset's folder. Raises PathEscapes where it is a link out of it."""
    if not path.resolve().is_relative_to(root.resolve()):
        raise PathEscapes(root.name, path.name, path.name)
    return path


def needed(root: Path, reader: str, *names: str) -> Path:
    """Return the first of some files or folders that is there.

    Raises LayoutMissing; PathEscapes where a name, or a link, leads out of `root`.
    """
    for name in names:
        below(root, name, root.name, name)
        if (root / name).exists():
            return root / name
    raise LayoutMissing(root.name, f"has no {' or '.join(names)}", reader)


def shown(path: Path, root: Path) -> str:
    """Return how errors call a file: below its dataset's folder, which they name as well."""
    folder = root if root.is_dir() else root.parent
    try:
        return str(Path(folder.name, path.relative_to(folder)))
    except ValueError:
        return path.name
