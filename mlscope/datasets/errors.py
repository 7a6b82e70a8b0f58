"""What can go wrong with a dataset: each error names the file, and the record and field if any."""

from collections.abc import Iterable
from reprlib import Repr

# Whole, a list that holds others many times may be of any length.
_BRIEF = Repr()
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxother, _BRIEF.maxlong = 4, 200, 200, 200
_BRIEF.maxlist = _BRIEF.maxtuple = _BRIEF.maxdict = 20


class DatasetError(Exception):
    """A dataset, or one sample of it, can't be read."""


class UnknownReader(DatasetError):
    """No reader has this name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        """Name the reader asked for and those there are."""
        self.name, self.known = name, tuple(sorted(known))
        super().__init__(f"no reader {name!r}; known: {', '.join(self.known)}")


class BadOption(DatasetError):
    """An option of a reader is unknown, missing or out of range."""

    def __init__(self, reader: str, option: str, found: object, expected: str) -> None:
        """Name the reader, its option, what was found and what is expected."""
        self.reader, self.option, self.found, self.expected = reader, option, found, expected
        super().__init__(f"{reader}: option {option} must be {expected} (found {found!r})")


class LayoutMissing(DatasetError):
    """A folder lacks what its layout needs."""

    def __init__(self, place: str, missing: str, reader: str) -> None:
        """Name the folder or file, what is missing there, and the layout."""
        self.place, self.missing, self.reader = place, missing, reader
        super().__init__(f"{place}: {missing}; the layout {reader} needs it")


class LayoutUnknown(DatasetError):
    """What lies in a place does not tell how it is to be read."""

    def __init__(self, place: str, reason: str) -> None:
        """Name the folder or file and why it can't be told."""
        self.place, self.reason = place, reason
        super().__init__(f"{place}: {reason}; describe it in a manifest with a source and reader")


class PackageNeeded(DatasetError):
    """A reader needs a Python package that is not installed here."""

    def __init__(self, reader: str, reason: str) -> None:
        """Name the reader and the import's own words."""
        self.reader, self.reason = reader, reason
        super().__init__(f"{reader} can't be read here: {reason}")


class FileBroken(DatasetError):
    """A file is not what its format says."""

    def __init__(self, file: str, reason: str) -> None:
        """Name the file and what is wrong with it."""
        self.file, self.reason = file, reason
        super().__init__(f"{file}: {reason}")


class PathEscapes(DatasetError):
    """A dataset's file names a path outside its folder."""

    def __init__(self, file: str, record: int | str, path: str) -> None:
        """Name the file, the record in it and the path."""
        self.file, self.record, self.path = file, record, path
        super().__init__(f"{file}: record {record}: {path!r} leads out of the dataset's folder")


class BadRecord(DatasetError):
    """One record of a file can't be read."""

    def __init__(self, file: str, record: int | str, reason: str) -> None:
        """Name the file, the record (counted from 0, or by its name) and what is wrong."""
        self.file, self.record, self.reason = file, record, reason
        super().__init__(f"{file}: record {record}: {reason}")


class BadField(BadRecord):
    """One field of a record is missing or not what it should be."""

    def __init__(
        self, file: str, record: int | str, field: str, found: object, expected: str
    ) -> None:
        """Name file, record and field, what was found there and what is expected."""
        self.field, self.found, self.expected = field, found, expected
        shown = _BRIEF.repr(found)
        shown = shown if len(shown) <= 80 else f"{shown[:80]}…"
        super().__init__(file, record, f"{field} is {shown}, expected {expected}")
