"""Where things lie in the cache, and what goes first when room is needed: the longest unused."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlscope.assets.errors import CacheFull
from mlscope.assets.locks import try_lock
from mlscope.assets.records import key_of, read_record

RESERVED = "reserved_bytes"
"""In a partial file's record: how large it will be, which is what it counts for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that may be evicted; `used_ns` is when it was last asked for."""

    kind: Literal["content", "tree", "partial"]
    path: Path
    size_bytes: int
    used_ns: int


class Places:
    """The paths below one cache's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folders = tuple(
            root / name for name in ("sha256", "trees", "partial", "index", "checked", "gone")
        )

    def content(self, sha256: str) -> Path:
        """Return the place of a file."""
        return self.root / "sha256" / sha256[:2] / sha256[2:]

    def tree(self, sha256: str) -> Path:
        """Return the place of an unpacked archive."""
        return self.root / "trees" / sha256[:2] / sha256[2:]

    def partial(self, key: str) -> Path:
        """Return the place of a download under way."""
        return self.root / "partial" / key

    def index(self, key: str) -> Path:
        """Return the place of a record of an address."""
        return self.root / "index" / f"{key_of(key)}.json"

    def checked(self, name: str) -> Path:
        """Return the place of a record of a check."""
        return self.root / "checked" / f"{key_of(name)}.json"

    def entries(self) -> Iterator[Entry]:
        """Yield everything that takes room; what vanishes meanwhile is left out."""
        for path in self.root.glob("sha256/*/*"):
            with contextlib.suppress(FileNotFoundError):
                found = path.stat()
                yield Entry("content", path, found.st_size, found.st_atime_ns)
        for path in self.root.glob("trees/*/*"):
            with contextlib.suppress(FileNotFoundError):
                record = read_record(self.checked(f"tree {_name_of(path)}"))
                size_bytes = int(record.get("size_bytes", 0))
                yield Entry("tree", path, size_bytes, path.stat().st_atime_ns)
        for path in self.root.glob("partial/*"):
            if path.suffix:
                continue
            with contextlib.suppress(FileNotFoundError):
                found = path.stat()
                reserved = read_record(path.with_name(f"{path.name}.json")).get(RESERVED, 0)
                yield Entry("partial", path, max(found.st_size, reserved), found.st_mtime_ns)

    def used_bytes(self) -> int:
        """Return how much there is in all."""
        return sum(entry.size_bytes for entry in self.entries())


def make_room(places: Places, more_bytes: int, limit_bytes: int) -> None:
    """Evict the longest unused until `more_bytes` fit. Raises CacheFull.

    What somebody holds stays.
    """
    _empty_gone(places)
    entries = sorted(places.entries(), key=lambda entry: entry.used_ns)
    excess = sum(entry.size_bytes for entry in entries) + more_bytes - limit_bytes
    if excess <= 0:
        return
    for entry in entries:
        if excess > 0 and _evict(places, entry):
            excess -= entry.size_bytes
    _forget_evicted(places)
    if excess > 0:
        raise CacheFull(str(places.root), more_bytes, limit_bytes)


def remove_tree(places: Places, path: Path) -> None:
    """Take an unpacked archive away: out of its place by one rename, then bit by bit."""
    gone = places.root / "gone" / secrets.token_hex(8)
    with contextlib.suppress(FileNotFoundError):
        path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _evict(places: Places, entry: Entry) -> bool:
    """Remove an entry unless somebody holds it; tell whether it is gone."""
    try:
        descriptor = try_lock(entry.path, "exclusive")
    except FileNotFoundError:
        return True
    if descriptor is None:
        return False
    try:
        _remove(places, entry)
    finally:
        os.close(descriptor)
    return True


def _remove(places: Places, entry: Entry) -> None:
    if entry.kind == "content":
        entry.path.unlink()
        places.checked(_name_of(entry.path)).unlink(missing_ok=True)
    elif entry.kind == "tree":
        remove_tree(places, entry.path)
        places.checked(f"tree {_name_of(entry.path)}").unlink(missing_ok=True)
    else:
        shutil.rmtree(f"{entry.path}.d", ignore_errors=True)
        entry.path.with_name(f"{entry.path.name}.json").unlink(missing_ok=True)
        entry.path.unlink(missing_ok=True)


def _forget_evicted(places: Places) -> None:
    """Remove what is recorded of addresses whose file is gone."""
    for path in places.root.glob("index/*.json"):
        if not places.content(str(read_record(path).get("sha256", ""))).is_file():
            path.unlink(missing_ok=True)


def _empty_gone(places: Places) -> None:
    """Remove what a process killed in the middle of an eviction left."""
    for path in places.root.glob("gone/*"):
        shutil.rmtree(path, ignore_errors=True)


def _name_of(path: Path) -> str:
    return path.parent.name + path.name
