"""Files of labels: one class name a line, or a sample and its label a line."""

import csv
from collections.abc import Iterator
from pathlib import Path

from mlscope.datasets.dataset import below, shown, text_lines
from mlscope.datasets.errors import BadField, BadRecord
from mlscope.datasets.place import Place
from mlscope.datasets.truth import Classes, Truth, Where


def classes_of(place: Place) -> Classes:
    """Return the classes that the options `class_names` (a file) and `classes` (a count) say.

    Raises DatasetError.
    """
    names_file = place.options.text("class_names")
    count = place.options.whole("classes", 0)
    names = tuple(_lines_named(names_file, place)) if names_file else ()
    return Classes(names, count)


def _lines_named(file: str, place: Place) -> list[str]:
    return text_lines(below(place.folder, file, place.options.reader, "class_names"), place.path)


def pairs_in(path: Path, root: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line number (from 1), the sample and the label of each line.

    Between them is a comma (CSV, then a sample may be quoted) or the last white space. A first
    line `path,label` and the like is a heading. Raises BadRecord.
    """
    lines = text_lines(path, root)
    is_csv = path.suffix.lower() == ".csv" or (bool(lines) and "," in lines[0])
    rows = csv.reader(lines) if is_csv else (line.rsplit(None, 1) for line in lines)
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        if len(row) != 2:
            raise BadRecord(shown(path, root), f"line {number}", "a sample and its label expected")
        sample, label = (each.strip() for each in row)
        if number == 1 and label.lower() in ("label", "class", "labels"):
            continue
        yield number, sample, label


def is_number(label: str) -> bool:
    """Tell whether a label is a class's index, if only a wrong one."""
    return label.removeprefix("-").isdecimal()


def number_of(text: str, file: str, record: int | str, field: str) -> int:
    """Return the whole number in a text. Raises BadField."""
    try:
        return int(text)
    except ValueError:
        raise BadField(file, record, field, text, "a whole number") from None


def truth_of(label: str, classes: Classes, name: str, where: Where) -> Truth:
    """Return the truth of a label that is a class's index or name. Raises BadField."""
    if is_number(label) and label not in classes.places:
        return classes.truth(int(label), name, where)
    return classes.named(label, name, where)
