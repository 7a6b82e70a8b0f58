"""What can be wrong with files that travel between machines."""


class BundleBroken(Exception):
    """A bundle file is cut short or altered."""

    def __init__(self, path: str, reason: str) -> None:
        """Name the file and what is wrong with it."""
        self.path, self.reason = path, reason
        super().__init__(f"bundle {path}: {reason}")
