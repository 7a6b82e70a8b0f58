"""Errors of reading a dataset. Each names the file, and the record and field if it has any."""

from collections.abc import Iterable
from reprlib import Repr

# An object that holds the same list many times has a repr of any length, so it is cut by depth too.
_BRIEF = Repr()
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxother, _BRIEF.maxlong = 4, 200, 200, 200
_BRIEF.maxlist = _BRIEF.maxtuple = _BRIEF.maxdict = 20


class DatasetError(Exception):
    """A dataset, or one sample of it, can't be read."""


class UnknownReader(DatasetError):
    """No reader has this name."""

    def __init__(self, name: str, readers: Iterable[str]) -> None:
        """Name the requested reader and the existing ones."""
        self.name, self.readers = name, tuple(sorted(readers))
        super().__init__(f"no reader {name!r}; known: {', '.join(self.readers)}")


class BadOption(DatasetError):
    """An option of a reader is unknown, missing or out of range."""

    def __init__(self, reader: str, option: str, value: object, expected: str) -> None:
        """Name the `reader`, its `option`, the `value` it has and what is `expected`."""
        self.reader, self.option, self.value, self.expected = reader, option, value, expected
        super().__init__(f"{reader}: option {option} must be {expected} (found {value!r})")


class LayoutMissing(DatasetError):
    """A folder lacks a file or folder that its layout needs."""

    def __init__(self, place: str, missing: str, reader: str) -> None:
        """Name the folder or file (`place`), what is `missing` there, and the layout (`reader`)."""
        self.place, self.missing, self.reader = place, missing, reader
        super().__init__(f"{place}: {missing}; the layout {reader} needs it")


class LayoutUnknown(DatasetError):
    """The content of a folder, or the name of a file, does not show which reader it needs."""

    def __init__(self, place: str, reason: str) -> None:
        """Name the folder or file and the reason."""
        self.place, self.reason = place, reason
        super().__init__(f"{place}: {reason}; describe it in a manifest with a source and reader")


class LayoutUnsupported(DatasetError):
    """A folder has a form of the layout that mlscope does not read."""

    def __init__(self, place: str, form: str, remedy: str) -> None:
        """Name the folder or file (`place`), its `form`, and what the user can do (`remedy`)."""
        self.place, self.form, self.remedy = place, form, remedy
        super().__init__(f"{place}: {form} is not supported; {remedy}")


class ScratchFull(DatasetError):
    """The files of a dataset unpack to more than is allowed."""

    def __init__(self, most_bytes: int) -> None:
        """Give the most bytes that they may unpack to."""
        self.most_bytes = most_bytes
        super().__init__(f"its files unpack to more than {most_bytes} bytes")


class PackageNeeded(DatasetError):
    """A reader needs a Python package that is not installed here."""

    def __init__(self, reader: str, reason: str) -> None:
        """Name the reader, and the failed import with the command that installs the package."""
        self.reader, self.reason = reader, reason
        super().__init__(f"{reader} can't be read here: {reason}")


class FileBroken(DatasetError):
    """A file violates its format."""

    def __init__(self, file: str, reason: str) -> None:
        """Name the file and what is wrong with it."""
        self.file, self.reason = file, reason
        super().__init__(f"{file}: {reason}")


class PathEscapes(DatasetError):
    """A file of the dataset names a path outside the dataset's folder."""

    def __init__(self, file: str, record: int | str, path: str) -> None:
        """Name the `file`, the `record` in it and the `path`."""
        self.file, self.record, self.path = file, record, path
        super().__init__(f"{file}: record {record}: {path!r} leads out of the dataset's folder")


class BadRecord(DatasetError):
    """One record of a file can't be read."""

    def __init__(self, file: str, record: int | str, reason: str) -> None:
        """Name the `file`, the `record` (an index from 0, or its name) and the `reason`."""
        self.file, self.record, self.reason = file, record, reason
        super().__init__(f"{file}: record {record}: {reason}")


class BadField(BadRecord):
    """One field of a record is missing or has a wrong value."""

    def __init__(
        self, file: str, record: int | str, field: str, value: object, expected: str
    ) -> None:
        """Name `file`, `record` and `field`, the `value` it has and what is `expected`."""
        self.field, self.value, self.expected = field, value, expected
        text = _BRIEF.repr(value)
        text = text if len(text) <= 80 else f"{text[:80]}…"
        super().__init__(file, record, f"{field} is {text}, expected {expected}")
