"""Label files: one class name a line, or a sample and its label a line."""

import csv
from collections.abc import Iterator
from pathlib import Path

from mlscope.datasets.dataset import resolve_below, shown, text_lines
from mlscope.datasets.errors import BadField, BadRecord
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.truth import Classes, LabelLocation, Truth


def classes_of(source: ReaderInput) -> Classes:
    """Return the classes from the options `class_names` (a file) and `classes` (their number).

    Raises DatasetError.
    """
    options = source.options
    file, count = options.text("class_names"), options.integer("classes", 0)
    if not file:
        return Classes((), count)
    path = resolve_below(source.folder, file, options.reader, "class_names")
    return Classes(tuple(text_lines(path, source.path)), count)


def labelled_samples(path: Path, root: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line number (from 1), the sample and the label of each line.

    A comma separates them (CSV, which may quote the sample), or the last white space. A first line
    like `path,label` is a heading and skipped. Raises BadRecord.
    """
    lines = text_lines(path, root)
    is_csv = path.suffix.lower() == ".csv" or (bool(lines) and "," in lines[0])
    rows = csv.reader(lines) if is_csv else (line.rsplit(None, 1) for line in lines)
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        if len(row) != 2:
            raise BadRecord(shown(path, root), f"line {number}", "a sample and its label expected")
        sample, label = (cell.strip() for cell in row)
        if number == 1 and label.lower() in ("label", "class", "labels"):
            continue
        yield number, sample, label


def is_class_index(label: str) -> bool:
    """Return whether a label is a class index, valid or not, rather than a name."""
    return label.removeprefix("-").isdecimal()


def parse_integer(text: str, file: str, record: int | str, field: str) -> int:
    """Return the integer in `text`. Raises BadField, which names `file`, `record` and `field`."""
    try:
        return int(text)
    except ValueError:
        raise BadField(file, record, field, text, "an integer") from None


def truth_of(label: str, classes: Classes, sample: str, location: LabelLocation) -> Truth:
    """Return the truth of a `sample` whose `label` is the index or name of one of `classes`.

    Raises BadField, which names the `location`.
    """
    if is_class_index(label) and label not in classes.index_by_name:
        return classes.truth_of_index(int(label), sample, location)
    return classes.truth_of_name(label, sample, location)


# Names of release 0.1, for readers in other packages. Release 0.3 drops them.
pairs_in, is_number, number_of = labelled_samples, is_class_index, parse_integer
