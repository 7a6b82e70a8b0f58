"""Small JSON records about cached files: written atomically; unreadable ones count as missing."""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Stamp:
    """The size, modification time and inode of a file: they change if the file changes."""

    size_bytes: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Stamp":
        """Return the stamp of a file's status."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


def tree_stamp(folder: Path) -> str:
    """Return a digest over the stamps of all files below a folder: it changes if one does."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        stamp = (status.st_size, status.st_mtime_ns, status.st_ino) if not path.is_dir() else ()
        digest.update(repr((path.relative_to(folder).as_posix(), status.st_mode, stamp)).encode())
    return digest.hexdigest()


def read_record(path: Path) -> Mapping[str, Any]:
    """Return a record; a missing or unreadable one is empty."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record, replacing an older one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.draft")
    try:
        draft.write_text(json.dumps(record), "utf-8")
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
