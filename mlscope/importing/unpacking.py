"""Files packed by gzip, unpacked within size limits (I/O).

A file is recognized by its first bytes, whatever its name is.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mlscope.importing.errors import ForeignFileBroken

MAGIC = b"\x1f\x8b"
MAX_BYTES = 4 << 30
MAX_RATIO = 200
"""Traces shrink to a tenth or a fiftieth; a file that grows by more is made to fill disks."""
FREE_BYTES = 64 << 20
"""Up to this size the ratio does not matter."""
_CHUNK_BYTES = 1 << 20


def unpacked_head(path: Path, size_bytes: int) -> bytes:
    """Return the first `size_bytes` of what a file holds, packed or not. Raises ForeignFileBroken.

    Fewer bytes are returned of a shorter file.
    """
    try:
        with path.open("rb") as file:
            head = file.read(size_bytes)
        if not head.startswith(MAGIC):
            return head
        with gzip.open(path) as packed:
            return packed.read(size_bytes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ForeignFileBroken(str(path), f"is damaged gzip: {error}") from error
    except OSError as error:
        raise ForeignFileBroken.unreadable(str(path), error) from error


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield the file itself, or a temporary file with what gzip packed in it, without its `.gz`.

    Raises ForeignFileBroken: damaged, cut short, or larger than the limits.
    """
    try:
        with path.open("rb") as file:
            is_packed = file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise ForeignFileBroken.unreadable(str(path), error) from error
    if not is_packed:
        yield path
        return
    with TemporaryDirectory(prefix="mlscope-") as folder:
        plain = Path(folder) / path.stem
        size = 0
        try:
            max_bytes = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * path.stat().st_size))
            with gzip.open(path) as packed, plain.open("wb") as file:
                while size <= max_bytes and (chunk := packed.read(_CHUNK_BYTES)):
                    size += len(chunk)
                    file.write(chunk)
        except (OSError, EOFError, zlib.error) as error:
            raise ForeignFileBroken(str(path), f"is damaged gzip: {error}") from error
        if size > max_bytes:
            raise ForeignFileBroken(str(path), f"is larger than {max_bytes} bytes when unpacked")
        yield plain
