"""Files of other tools, read whole within a limit (I/O)."""

from pathlib import Path

from mlscope.importing.errors import ForeignFileBroken


def read_within(path: Path, max_bytes: int) -> bytes:
    """Return a file's bytes. Raises ForeignFileBroken: unreadable, or larger than `max_bytes`."""
    try:
        if path.stat().st_size > max_bytes:
            raise ForeignFileBroken(str(path), f"is larger than {max_bytes} bytes")
        return path.read_bytes()
    except OSError as error:
        raise ForeignFileBroken.unreadable(str(path), error) from error
