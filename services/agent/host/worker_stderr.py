"""What a worker writes to stderr, in a file without a name (I/O).

A worker may write into its scratch folder. It could put a link to a key in the place of a file
there, which its host would then read with rights of its own, or a pipe, at which the host would
wait for ever.
"""

import os
import tempfile
from pathlib import Path
from typing import IO

_TAIL_BYTES = 2000


def opened_stderr(folder: Path) -> IO[bytes]:
    """Return a new file on the disk of `folder`. Raises OSError."""
    return tempfile.TemporaryFile(dir=folder)


def tail_of(stderr: IO[bytes]) -> str:
    """Return the last 2000 bytes that were written to `stderr`, as text; '' once it is closed.

    Its position stays: the writer has the same one.
    """
    if stderr.closed:
        return ""
    descriptor = stderr.fileno()
    place = max(0, os.fstat(descriptor).st_size - _TAIL_BYTES)
    return os.pread(descriptor, _TAIL_BYTES, place).decode(errors="replace")
