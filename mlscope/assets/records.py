"""Small JSON records beside the cached files: written whole or not at all, read with suspicion."""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def key_of(text: str) -> str:
    """Return the file name under which something about `text` is recorded."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells cheaply that a file is still the one that was checked."""

    size_bytes: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> "Stamp":
        """Return the stamp of what `stat` found."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)


def tree_stamp(folder: Path) -> str:
    """Return a digest over the stamps of all files below a folder: one changed is noticed."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found = path.lstat()
        kept = (found.st_size, found.st_mtime_ns, found.st_ino) if not path.is_dir() else ()
        digest.update(repr((path.relative_to(folder).as_posix(), found.st_mode, kept)).encode())
    return digest.hexdigest()


def read_record(path: Path) -> Mapping[str, Any]:
    """Return a record; one that is missing or unreadable is empty."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record in place of an older one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.draft")
    try:
        draft.write_text(json.dumps(record), "utf-8")
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
