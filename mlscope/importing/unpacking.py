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


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield the file itself, or a temporary file with what gzip packed in it.

    Raises ForeignFileBroken: damaged, cut short, or larger than the limits.
    """
    try:
        with path.open("rb") as file:
            is_packed = file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise ForeignFileBroken(str(path), error.strerror or str(error)) from error
    if not is_packed:
        yield path
        return
    with TemporaryDirectory(prefix="mlscope-") as folder:
        plain = Path(folder) / "plain"
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
