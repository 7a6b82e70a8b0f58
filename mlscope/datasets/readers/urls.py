"""Lists of addresses: a sample is the file at an address, fetched before the list is opened.

A list is a CSV with the heading `url[,sha256][,label]`, or has one address a line.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlscope.datasets.dataset import Dataset, file_bytes, text_lines
from mlscope.datasets.errors import BadRecord
from mlscope.datasets.labels import classes_of, truth_of
from mlscope.datasets.reader_input import ReaderInput
from mlscope.datasets.truth import LabelLocation, Truth

_HEADINGS = ("url", "sha256", "label")
_MOST_ADDRESSES = 100_000


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One line of a list: the address of a file, its checksum and its label ('' for none)."""

    line: int
    url: str
    sha256: str = ""
    label: str = ""


def urls(source: ReaderInput) -> Dataset:
    """Read files by address. One that could not be fetched fails alone.

    A label is a class's index or name; `class_names` and `classes` as for folders. Raises
    DatasetError.
    """
    classes = classes_of(source)
    list_name = source.shown(source.path)
    files = list(listed_files(source.path, list_name))

    def sample(index: int) -> bytes:
        file = files[index]
        path = source.fetched.get(file.url, "it was not fetched")
        if isinstance(path, str):
            raise BadRecord(list_name, f"line {file.line}", f"{file.url}: {path}")
        return file_bytes(path, source.path, f"line {file.line}")

    def truth(index: int) -> Truth | None:
        file = files[index]
        if not file.label:
            return None
        location = LabelLocation(list_name, f"line {file.line}")
        return truth_of(file.label, classes, file.url, location)

    return Dataset(len(files), sample, truth, classes.names)


def listed_files(path: Path, name: str) -> Iterator[ListedFile]:
    """Yield the lines of a list that errors call `name`. Raises FileBroken, BadRecord."""
    lines = text_lines(path, path)
    heading = [cell.strip().lower() for cell in lines[0].split(",")] if lines else []
    files = []
    if "url" in heading:
        for number, row in enumerate(csv.reader(lines[1:]), 2):
            if not row:
                continue
            if len(row) != len(heading):
                reason = f"has {len(row)} cells, the heading has {len(heading)}"
                raise BadRecord(name, f"line {number}", reason)
            cells = dict(zip(heading, (cell.strip() for cell in row), strict=True))
            files.append(ListedFile(number, *(cells.get(column, "") for column in _HEADINGS)))
    else:
        stripped = ((number, line.strip()) for number, line in enumerate(lines, 1))
        files = [ListedFile(number, line) for number, line in stripped if line and line[0] != "#"]
    if len(files) > _MOST_ADDRESSES:
        reason = f"a list has at most {_MOST_ADDRESSES} addresses"
        raise BadRecord(name, f"line {_MOST_ADDRESSES}", reason)
    yield from files
