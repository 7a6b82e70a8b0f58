"""What can be wrong with a file of another tool."""

from typing import Self


class ForeignError(Exception):
    """A file can't be imported."""

    def __init__(self, path: str, why: str) -> None:
        """Name the file and what is wrong with it; `why` begins with a verb."""
        self.path, self.why = path, why
        super().__init__(f"{path} {why}")


class ForeignFileUnknown(ForeignError):
    """The file is not of any known tool."""


class ForeignFileBroken(ForeignError):
    """The file is cut short, altered, or holds values that its tool never writes."""

    @classmethod
    def unreadable(cls, path: str, error: OSError) -> Self:
        """Return the error for a file that the system does not let us read."""
        return cls(path, f"cannot be read: {error.strerror or error}")


class ReportUnreadable(Exception):
    """A profiler's report can't be used."""

    def __init__(self, reason: str) -> None:
        """Say why; `reason` begins with a verb or is a sentence about `the …`."""
        self.reason = reason
        super().__init__(f"the report {reason}" if not reason.startswith("the ") else reason)
