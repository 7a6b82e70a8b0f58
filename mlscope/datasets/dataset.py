"""Datasets as readers return them: samples and ground truths by index, read when asked for."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from mlscope.datasets.errors import BadRecord, FileBroken, LayoutMissing, PathEscapes
from mlscope.datasets.truth import Truth
from mlscope.old_names import accepting_old_names

T = TypeVar("T")

MOST_SAMPLE_BYTES = 1 << 30
MOST_TEXT_BYTES = 256 << 20
MOST_JSON_BYTES = 512 << 20
"""COCO's largest file (instances_train2017.json) has 448 MB, SQuAD's 42 MB."""


class LazySequence(Sequence[T], Generic[T]):
    """A sequence that makes each element when it is asked for, and keeps none."""

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        """Return one element or a slice. Raises IndexError, and what making the element raises."""
        if isinstance(index, slice):
            indices = range(*index.indices(self._count))
            return LazySequence(len(indices), lambda position: self._make(indices[position]))
        from_start = index + self._count if index < 0 else index
        if not 0 <= from_start < self._count:
            raise IndexError(index)
        return self._make(from_start)

    def __iter__(self) -> Iterator[T]:
        return (self._make(index) for index in range(self._count))


class Dataset(LazySequence[Any]):
    """Samples as a pipeline takes them: bytes, a text, an array, or a map of these by input.

    Reading a sample may raise DatasetError; the other samples stay readable. `truths` has one
    entry a sample, None where nothing is known, and only a name where that is all. `classes` are
    the class names by index.
    """

    def __init__(
        self,
        count: int,
        sample: Callable[[int], Any],
        truth: Callable[[int], Truth | None],
        classes: Sequence[str] = (),
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a dataset of `count` samples.

        `sample` and `truth` return those of an index; `classes` are the class names; `close`
        releases open files.
        """
        super().__init__(count, sample)
        self.truths: Sequence[Truth | None] = LazySequence(count, truth)
        self.classes = tuple(classes)
        self._sample, self._truth, self._close = sample, truth, close

    @accepting_old_names(most="limit")  # its name until release 0.3
    def first(self, limit: int) -> "Dataset":
        """Return the first `limit` samples; 0 means all. Closing it closes this dataset."""
        count = min(len(self), limit) if limit else len(self)
        return Dataset(count, self._sample, self._truth, self.classes, self._close)

    def close(self) -> None:
        """Release open files. A second call does nothing."""
        self._close()


def file_bytes(path: Path, root: Path, record: int | str) -> bytes:
    """Return the content of a sample's file, at most MOST_SAMPLE_BYTES.

    Raises BadRecord, which names the file by its path below `root`, the dataset's folder, and the
    `record` that it belongs to.
    """
    try:
        content = _read_at_most(path, MOST_SAMPLE_BYTES)
    except OSError as error:
        raise BadRecord(shown(path, root), record, error.strerror or str(error)) from error
    if len(content) > MOST_SAMPLE_BYTES:
        raise BadRecord(shown(path, root), record, f"is larger than {MOST_SAMPLE_BYTES} bytes")
    return content


def text_lines(path: Path, root: Path) -> list[str]:
    """Return a text file's lines, without the empty ones at its end. Raises FileBroken."""
    name = shown(path, root)
    try:
        content = _read_at_most(path, MOST_TEXT_BYTES)
        if len(content) > MOST_TEXT_BYTES:
            raise FileBroken(name, f"is larger than {MOST_TEXT_BYTES} bytes")
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise FileBroken(name, f"is not UTF-8 text: {error}") from error
    except OSError as error:
        raise FileBroken(name, error.strerror or str(error)) from error
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def read_json(path: Path, root: Path) -> Any:
    """Return the value in a JSON file; `root` is the dataset's folder. Raises FileBroken."""
    name = shown(path, root)
    try:
        if path.stat().st_size > MOST_JSON_BYTES:
            raise FileBroken(name, f"is larger than {MOST_JSON_BYTES} bytes")
        return json.loads(_read_at_most(path, MOST_JSON_BYTES))
    except (ValueError, RecursionError) as error:
        raise FileBroken(name, f"is not JSON: {error}") from error
    except OSError as error:
        raise FileBroken(name, error.strerror or str(error)) from error


def _read_at_most(path: Path, most_bytes: int) -> bytes:
    """Return a file's content, at most one byte more than `most_bytes`."""
    with path.open("rb") as file:
        # read(n) allocates n bytes first, so n is no larger than the file.
        return file.read(min(os.fstat(file.fileno()).st_size, most_bytes) + 1)


def resolve_below(root: Path, path: str, file: str, record: int | str) -> Path:
    """Return the resolved `path` below `root`.

    Raises PathEscapes, which names `file` and `record` as the origin of the path, where it is
    absolute or leads out of `root`, also through a link.
    """
    try:
        resolved = (root / path).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links, a NUL
        raise PathEscapes(file, record, path) from error
    if Path(path).is_absolute() or not resolved.is_relative_to(root.resolve()):
        raise PathEscapes(file, record, path)
    return resolved


def require_below(root: Path, path: Path) -> Path:
    """Return `path` itself. Raises PathEscapes where it is a link that leads out of `root`."""
    if not path.resolve().is_relative_to(root.resolve()):
        raise PathEscapes(root.name, path.name, path.name)
    return path


def first_existing(root: Path, reader: str, *names: str) -> Path:
    """Return the first of the files or folders `names` that exists below `root`.

    Raises LayoutMissing, which names the `reader`, where none exists, and PathEscapes where a name
    or a link leads out of `root`.
    """
    for name in names:
        resolve_below(root, name, root.name, name)
        if (root / name).exists():
            return root / name
    raise LayoutMissing(root.name, f"has no {' or '.join(names)}", reader)


def shown(path: Path, root: Path) -> str:
    """Return the name of a file in errors: its path from the dataset's folder, including that."""
    folder = root if root.is_dir() else root.parent
    try:
        return str(Path(folder.name, path.relative_to(folder)))
    except ValueError:
        return path.name


# Names of release 0.1, for readers in other packages. Release 0.3 drops them.
Lazily = LazySequence
json_in, below, inside, needed = read_json, resolve_below, require_below, first_existing
