"""Log files of bounded size: the newest text in NAME.log, what came before in NAME.log.1."""

import shutil
from contextlib import suppress
from pathlib import Path

MAX_BYTES = 16 << 20


def bound(log: Path, max_bytes: int = MAX_BYTES) -> bool:
    """Move a log's text to `.1` once it is longer than `max_bytes`; tell whether it was.

    The file itself stays, as its writer holds it open for appending; a line written meanwhile
    may be lost, and on a full disk the older text is.
    """
    try:
        if log.stat().st_size <= max_bytes:
            return False
    except FileNotFoundError:
        return False
    with suppress(OSError):
        shutil.copyfile(log, log.with_name(log.name + ".1"))
    with log.open("r+b") as file:
        file.truncate(0)
    return True
