"""Lists of addresses: a sample is the file that one leads to, fetched by who opens the list.

A list is a CSV with the heading `url[,sha256][,label]`, or an address a line.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlscope.datasets.dataset import Dataset, file_bytes, text_lines
from mlscope.datasets.errors import BadRecord
from mlscope.datasets.labels import classes_of, truth_of
from mlscope.datasets.place import Place
from mlscope.datasets.truth import Truth, Where

_HEADINGS = ("url", "sha256", "label")
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Listed:
    """One line: the address of a file, its checksum if one is given, its label if it has one."""

    line: int
    url: str
    sha256: str = ""
    label: str = ""


def urls(place: Place) -> Dataset:
    """Files by address. One that could not be fetched is lost alone.

    A label is a class's index or name; `class_names` and `classes` as for folders. Raises
    DatasetError.
    """
    classes = classes_of(place)
    listed = list(listed_in(place.path, place.shown(place.path)))
    shown = place.shown(place.path)

    def sample(index: int) -> bytes:
        each = listed[index]
        path = place.brought.get(each.url, "it was not fetched")
        if isinstance(path, str):
            raise BadRecord(shown, f"line {each.line}", f"{each.url}: {path}")
        return file_bytes(path, place.path, f"line {each.line}")

    def truth(index: int) -> Truth | None:
        each = listed[index]
        if not each.label:
            return None
        return truth_of(each.label, classes, each.url, Where(shown, f"line {each.line}"))

    return Dataset(len(listed), sample, truth, classes.names)


def listed_in(path: Path, shown: str) -> Iterator[Listed]:
    """Yield the lines of a list. Raises FileBroken, BadRecord."""
    lines = text_lines(path, path)
    heading = [each.strip().lower() for each in lines[0].split(",")] if lines else []
    if "url" not in heading:
        plain = ((number, line.strip()) for number, line in enumerate(lines, 1))
        found = [Listed(number, line) for number, line in plain if line and line[0] != "#"]
    else:
        found = [_row(number, row, heading, shown) for number, row in _rows(lines)]
    if len(found) > _MOST:
        raise BadRecord(shown, f"line {_MOST}", f"a list has at most {_MOST} addresses")
    yield from found


def _rows(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader(lines[1:])
    return ((number, row) for number, row in enumerate(rows, 2) if row)


def _row(number: int, row: list[str], heading: list[str], shown: str) -> Listed:
    if len(row) != len(heading):
        reason = f"has {len(row)} cells, the heading has {len(heading)}"
        raise BadRecord(shown, f"line {number}", reason)
    cells = {name: cell.strip() for name, cell in zip(heading, row, strict=True)}
    return Listed(number, *(cells.get(name, "") for name in _HEADINGS))
