"""What can be wrong with a file of another tool."""


class ForeignError(Exception):
    """A file can't be imported."""

    def __init__(self, path: str, why: str) -> None:
        """Name the file and what is wrong with it."""
        self.path, self.why = path, why
        super().__init__(f"{path} {why}")


class ForeignFileUnknown(ForeignError):
    """No tool whose files are understood wrote it."""


class ForeignFileBroken(ForeignError):
    """It is cut short, altered, or holds what its tool never writes."""
