"""CSV: a row a sample, read where it begins; eight bytes in memory for each."""

import csv
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlscope.datasets.dataset import Dataset, below, file_bytes, inside
from mlscope.datasets.errors import BadField, BadOption, BadRecord, FileBroken, LayoutMissing
from mlscope.datasets.labels import classes_of, truth_of
from mlscope.datasets.options import Options
from mlscope.datasets.place import Place
from mlscope.datasets.truth import Classes, Truth, Where

_MOST_ROW_BYTES = 16 << 20
Row = Mapping[str, str]
Part = Callable[[Row, int], Any]


def rows(place: Place) -> Dataset:
    """Rows of a CSV file with a heading.

    What a sample is: `features` (columns of numbers, as one `element_type` array, of `shape` where
    one is given), `file` (a column of paths, relative to the CSV's folder), `text` (one or two
    columns), or `inputs` {input: one of these}. `label` is the column of the class, `targets`
    columns of numbers, `texts` of right answers. Numbers that are NaN or no numbers are errors
    unless `allow_nan`. `delimiter`, and `class_names` and `classes` as for folders. Raises
    DatasetError.
    """
    options = place.options
    path = _file(place)
    table = Table(path, place.shown(path), options.text("delimiter", ","))
    part = _parts(options, table, place)
    classes = classes_of(place)
    truth = _truth(options, table, classes)
    return Dataset(
        len(table),
        lambda index: part(table.row(index), index),
        lambda index: truth(table.row(index), index),
        classes.names,
    )


class Table:
    """Where the rows of a CSV file begin."""

    def __init__(self, path: Path, shown: str, delimiter: str) -> None:
        """Read the heading and walk through the rows. Raises FileBroken."""
        if len(delimiter) != 1:
            raise BadOption("csv", "delimiter", delimiter, "one character")
        self.path, self.shown, self._delimiter = path, shown, delimiter
        starts = array("Q")
        self.columns: list[str] = []
        for start, cells in self._walk(0):
            if not self.columns:
                self.columns = [each.strip().lstrip("\ufeff") for each in cells]
            elif cells:
                starts.append(start)
        self._starts = starts
        repeated = {each for each in self.columns if self.columns.count(each) > 1}
        if repeated:
            raise FileBroken(shown, f"has two columns {min(repeated)!r}")

    def __len__(self) -> int:
        return len(self._starts)

    def row(self, index: int) -> Row:
        """Return a row by its columns. Raises BadRecord."""
        _, cells = next(self._walk(self._starts[index]))
        if len(cells) != len(self.columns):
            reason = f"has {len(cells)} cells, the heading has {len(self.columns)}"
            raise BadRecord(self.shown, index, reason)
        return dict(zip(self.columns, cells, strict=True))

    def require(self, option: str, columns: Sequence[str]) -> None:
        """Raise BadOption for a column that there is not."""
        for each in columns:
            if each not in self.columns:
                known = f"one of the columns {', '.join(self.columns)}"
                raise BadOption("csv", option, each, known)

    def _walk(self, start: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows from a place on, and where each begins."""
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                at = end = start

                def lines() -> Iterator[str]:
                    nonlocal end
                    while line := file.readline(_MOST_ROW_BYTES + 1):
                        end += len(line)
                        if end - at > _MOST_ROW_BYTES:
                            reason = (
                                f"a row from byte {at} on has more than {_MOST_ROW_BYTES} bytes"
                            )
                            raise FileBroken(self.shown, reason)
                        yield line.decode("utf-8")

                for cells in csv.reader(lines(), delimiter=self._delimiter, strict=True):
                    yield at, cells
                    at = end
        except (UnicodeDecodeError, csv.Error, OSError) as error:
            raise FileBroken(self.shown, f"no CSV from byte {at} on: {error}") from error


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Columns of numbers as one array."""

    table: Table
    columns: tuple[str, ...]
    kind: "np.dtype[Any]"
    shape: tuple[int, ...]
    allow_nan: bool

    def __call__(self, row: Row, index: int) -> Any:
        values = [self._number(row[each], index, each) for each in self.columns]
        array = np.array(values, self.kind)
        return array.reshape(self.shape) if self.shape else array

    def _number(self, text: str, index: int, column: str) -> float | int:
        try:
            value = int(text) if self.kind.kind in "iu" else float(text)
        except ValueError:
            what = "a whole number" if self.kind.kind in "iu" else "a number"
            raise BadField(self.table.shown, index, column, text, what) from None
        if not self.allow_nan and math.isnan(value):
            raise BadField(self.table.shown, index, column, text, "a number (or `allow_nan`)")
        return value


def _parts(options: Options, table: Table, place: Place) -> Part:
    several = options.below("inputs")
    allow_nan = options.flag("allow_nan", default=False)
    if not several:
        return _part(options, table, place, allow_nan=allow_nan)
    parts = {}
    for name, said in several.items():
        if not isinstance(said, Mapping):
            raise BadOption(options.reader, f"inputs.{name}", said, "a map")
        below_it = Options(options.reader, said)
        parts[str(name)] = _part(below_it, table, place, allow_nan=allow_nan)
        below_it.done()
    return lambda row, index: {name: part(row, index) for name, part in parts.items()}


def _part(options: Options, table: Table, place: Place, *, allow_nan: bool) -> Part:
    features, file, texts = options.texts("features"), options.text("file"), options.texts("text")
    kind, shape = options.element_type("element_type", "float32"), options.shape("shape")
    if sum(map(bool, (features, file, texts))) != 1:
        raise BadOption(options.reader, "features", [features, file, texts], _ONE)
    table.require("features", features)
    table.require("text", texts)
    if features:
        if shape and math.prod(shape) != len(features):
            raise BadOption(options.reader, "shape", shape, f"a shape of {len(features)} numbers")
        return _Numbers(table, features, kind, shape, allow_nan)
    if texts:
        return lambda row, _: row[texts[0]] if len(texts) == 1 else [row[each] for each in texts]
    table.require("file", (file,))
    root = place.folder
    return lambda row, index: file_bytes(below(root, row[file], table.shown, index), root, index)


def _truth(options: Options, table: Table, classes: Classes) -> Callable[[Row, int], Truth | None]:
    label, targets = options.text("label"), options.texts("targets")
    texts = options.texts("texts")
    if label:
        table.require("label", (label,))
        return lambda row, at: truth_of(
            row[label].strip(), classes, str(at), Where(table.shown, at, label)
        )
    if targets:
        table.require("targets", targets)
        numbers = _Numbers(table, targets, np.dtype(np.float64), (), False)
        return lambda row, at: Truth(str(at), values=numbers(row, at))
    if texts:
        table.require("texts", texts)
        return lambda row, at: Truth(str(at), texts=tuple(row[each] for each in texts))
    return lambda _, __: None


def _file(place: Place) -> Path:
    if place.path.is_file():
        return place.path
    found = sorted(place.path.glob("*.csv"))
    if len(found) != 1:
        raise LayoutMissing(place.path.name, f"has {len(found)} .csv files", "csv")
    return inside(place.path, found[0])


_ONE = "either features, file or text"
