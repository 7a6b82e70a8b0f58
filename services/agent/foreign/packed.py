"""Files packed by gzip, as profilers write them and people keep them, unpacked within bounds (I/O).

Told by their first bytes, whatever they are called.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from services.agent.foreign.errors import ForeignFileBroken

MAGIC = b"\x1f\x8b"
MOST_BYTES = 4 << 30
MOST_RATIO = 200
"""Traces are packed to a tenth or a fiftieth; what grows by more is made to fill disks."""
FREE_BYTES = 64 << 20
"""Small files may grow as they like up to this."""
_CHUNK_BYTES = 1 << 20


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield the file itself, or what gzip packed in it, for as long as needed.

    Raises ForeignFileBroken: damaged, cut short, or larger than its bounds.
    """
    if not _is_packed(path):
        yield path
        return
    with TemporaryDirectory(prefix="mlscope-") as folder:
        plain = Path(folder) / "plain"
        try:
            most = min(MOST_BYTES, max(FREE_BYTES, MOST_RATIO * path.stat().st_size))
            with gzip.open(path) as packed, plain.open("wb") as file:
                fits = _copied(packed, file, most)
        except (OSError, EOFError, zlib.error) as error:
            raise ForeignFileBroken(str(path), f"is no whole gzip: {error}") from error
        if not fits:
            raise ForeignFileBroken(str(path), f"is larger than {most} bytes when unpacked")
        yield plain


def _is_packed(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise ForeignFileBroken(str(path), error.strerror or str(error)) from error


def _copied(packed: gzip.GzipFile, file: IO[bytes], most: int) -> bool:
    """Copy at most so many bytes, and say whether that was all."""
    size = 0
    while chunk := packed.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > most:
            return False
        file.write(chunk)
    return True
