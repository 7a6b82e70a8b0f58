"""CSV files: each row is a sample, read from its offset in the file (8 bytes in memory each)."""

import csv
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mlscope.datasets.dataset import Dataset, file_bytes, require_below, resolve_below
from mlscope.datasets.errors import BadField, BadOption, BadRecord, FileBroken, LayoutMissing
from mlscope.datasets.labels import classes_of, truth_of
from mlscope.datasets.options import Options
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.truth import Classes, LabelLocation, Truth

_MOST_ROW_BYTES = 16 << 20
Row = Mapping[str, str]
InputOfRow = Callable[[Row, int], Any]
"""Returns an input of a sample from its row and index."""


def rows(source: ReaderInput) -> Dataset:
    """Read the rows of a CSV file with a heading.

    A sample comes from `features` (columns of numbers, as one array of `element_type`, of `shape`
    where one is given), `file` (a column of paths, relative to the CSV's folder), `text` (one or
    two columns), or `inputs` {input: one of these}. `label` is the column of the class, `targets`
    columns of numbers, `texts` columns of correct answers. A cell that is NaN or no number is an
    error unless `allow_nan`. `delimiter`, and `class_names` and `classes` as for folders. Raises
    DatasetError.
    """
    options = source.options
    path = source.path
    if not path.is_file():
        paths = sorted(path.glob("*.csv"))
        if len(paths) != 1:
            raise LayoutMissing(path.name, f"has {len(paths)} .csv files, expected one", "csv")
        path = require_below(path, paths[0])
    table = Table(path, source.shown(path), options.text("delimiter", ","))
    sample = _sample_of_row(options, table, source)
    classes = classes_of(source)
    truth = _truth_of_row(options, table, classes)
    return Dataset(
        len(table),
        lambda index: sample(table.row(index), index),
        lambda index: truth(table.row(index), index),
        classes.names,
    )


class Table:
    """The rows of a CSV file, by the offsets where they begin."""

    def __init__(self, path: Path, name: str, delimiter: str) -> None:
        """Read the heading, and find the rows, of the file at `path`, which errors call `name`.

        Raises FileBroken; BadOption for a `delimiter` that is not one character.
        """
        if len(delimiter) != 1:
            raise BadOption("csv", "delimiter", delimiter, "one character")
        self.path, self.name, self._delimiter = path, name, delimiter
        starts = array("Q")
        self.columns: list[str] = []
        for start, cells in self._rows_from(0):
            if not self.columns:
                self.columns = [cell.strip().lstrip("\ufeff") for cell in cells]
                continue
            if cells:
                starts.append(start)
        self._starts = starts
        repeated = {column for column in self.columns if self.columns.count(column) > 1}
        if repeated:
            raise FileBroken(name, f"has two columns {min(repeated)!r}")

    def __len__(self) -> int:
        return len(self._starts)

    def row(self, index: int) -> Row:
        """Return the cells of a row by their columns. Raises BadRecord."""
        _, cells = next(self._rows_from(self._starts[index]))
        if len(cells) != len(self.columns):
            reason = f"has {len(cells)} cells, the heading has {len(self.columns)}"
            raise BadRecord(self.name, index, reason)
        return dict(zip(self.columns, cells, strict=True))

    def require_columns(self, option: str, columns: Sequence[str]) -> None:
        """Raise BadOption, which names the `option`, for a column that does not exist."""
        for column in columns:
            if column not in self.columns:
                expected = f"one of the columns {', '.join(self.columns)}"
                raise BadOption("csv", option, column, expected)

    def _rows_from(self, start: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the offset and the cells of each row from the offset `start` on."""
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                row_start = end = start

                def lines() -> Iterator[str]:
                    nonlocal end
                    while line := file.readline(_MOST_ROW_BYTES + 1):
                        end += len(line)
                        if end - row_start > _MOST_ROW_BYTES:
                            size = f"has more than {_MOST_ROW_BYTES} bytes"
                            raise FileBroken(self.name, f"a row from byte {row_start} on {size}")
                        yield line.decode("utf-8")

                for cells in csv.reader(lines(), delimiter=self._delimiter, strict=True):
                    yield row_start, cells
                    row_start = end
        except (UnicodeDecodeError, csv.Error, OSError) as error:
            raise FileBroken(self.name, f"no CSV from byte {row_start} on: {error}") from error


@dataclass(frozen=True, slots=True)
class _NumberColumns:
    """Columns of numbers that become one array."""

    table: Table
    columns: tuple[str, ...]
    element_type: "np.dtype[Any]"
    shape: tuple[int, ...]
    allow_nan: bool

    def __call__(self, row: Row, index: int) -> Any:
        """Return the numbers in a row. Raises BadField, which names the row's `index`."""
        is_integer = self.element_type.kind in "iu"
        numbers: list[float | int] = []
        for column in self.columns:
            bad_cell = partial(BadField, self.table.name, index, column, row[column])
            try:
                number = int(row[column]) if is_integer else float(row[column])
            except ValueError:
                raise bad_cell("an integer" if is_integer else "a number") from None
            if not self.allow_nan and math.isnan(number):
                raise bad_cell("a number (or `allow_nan`)")
            numbers.append(number)
        values = np.array(numbers, self.element_type)
        return values.reshape(self.shape) if self.shape else values


def _sample_of_row(options: Options, table: Table, source: ReaderInput) -> InputOfRow:
    """Return the function that makes a sample of a row. Raises BadOption."""
    inputs = options.mapping("inputs")
    allow_nan = options.flag("allow_nan", default=False)
    if not inputs:
        return _input_of_row(options, table, source, allow_nan=allow_nan)
    readers = {}
    for name, entry in inputs.items():
        if not isinstance(entry, Mapping):
            raise BadOption(options.reader, f"inputs.{name}", entry, "a map")
        inner = Options(options.reader, entry)
        readers[str(name)] = _input_of_row(inner, table, source, allow_nan=allow_nan)
        inner.reject_unread()
    return lambda row, index: {name: read(row, index) for name, read in readers.items()}


def _input_of_row(
    options: Options, table: Table, source: ReaderInput, *, allow_nan: bool
) -> InputOfRow:
    """Return the function that makes one input of a row. Raises BadOption."""
    features, file, texts = options.texts("features"), options.text("file"), options.texts("text")
    kind, shape = options.element_type("element_type", "float32"), options.shape("shape")
    if sum(map(bool, (features, file, texts))) != 1:
        expected = "either features, file or text"
        raise BadOption(options.reader, "features", [features, file, texts], expected)
    table.require_columns("features", features)
    table.require_columns("text", texts)
    if features:
        if shape and math.prod(shape) != len(features):
            raise BadOption(options.reader, "shape", shape, f"a shape of {len(features)} numbers")
        return _NumberColumns(table, features, kind, shape, allow_nan)
    if texts:
        return lambda row, _: row[texts[0]] if len(texts) == 1 else [row[name] for name in texts]
    table.require_columns("file", (file,))
    root = source.folder

    def read_file(row: Row, index: int) -> bytes:
        return file_bytes(resolve_below(root, row[file], table.name, index), root, index)

    return read_file


def _truth_of_row(
    options: Options, table: Table, classes: Classes
) -> Callable[[Row, int], Truth | None]:
    """Return the function that makes the truth of a row. Raises BadOption."""
    label, targets = options.text("label"), options.texts("targets")
    texts = options.texts("texts")
    if label:
        table.require_columns("label", (label,))
        return lambda row, index: truth_of(
            row[label].strip(), classes, str(index), LabelLocation(table.name, index, label)
        )
    if targets:
        table.require_columns("targets", targets)
        numbers = _NumberColumns(table, targets, np.dtype(np.float64), (), False)
        return lambda row, index: Truth(str(index), values=numbers(row, index))
    if texts:
        table.require_columns("texts", texts)
        return lambda row, index: Truth(str(index), texts=tuple(row[name] for name in texts))
    return lambda _, __: None
