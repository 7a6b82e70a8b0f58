"""The layout of the cache's folder, and eviction of the least recently used entries."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlscope.assets.errors import CacheFull
from mlscope.assets.keys import key_of, short_key, shortened
from mlscope.assets.locks import try_lock
from mlscope.assets.records import read_record

RESERVED = "reserved_bytes"
"""In a partial file's record: its expected size, which counts towards the cache's limit."""
_MOST_ANNOUNCED = 2000
"""Files of weights are larger than most others; an announcement stays small."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An entry that may be evicted; `used_ns` is the epoch time of its last use."""

    kind: Literal["content", "tree", "partial"]
    path: Path
    size_bytes: int
    used_ns: int


class CacheLayout:
    """The paths below one cache's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folders = tuple(
            root / name
            for name in ("sha256", "trees", "partial", "index", "first", "checked", "gone")
        )

    def content(self, sha256: str) -> Path:
        """Return the path of a file."""
        return self.root / "sha256" / sha256[:2] / sha256[2:]

    def tree(self, sha256: str) -> Path:
        """Return the path of an unpacked archive."""
        return self.root / "trees" / sha256[:2] / sha256[2:]

    def partial(self, key: str) -> Path:
        """Return the path of a download in progress."""
        return self.root / "partial" / key

    def index(self, key: str) -> Path:
        """Return the path of the index record of an address."""
        return self.root / "index" / f"{key_of(key)}.json"

    def first(self, address: str) -> Path:
        """Return the path of the record of what came first from an address; it is never evicted."""
        return self.root / "first" / f"{key_of(address)}.json"

    def checked(self, name: str) -> Path:
        """Return the path of the record of a check."""
        return self.root / "checked" / f"{key_of(name)}.json"

    def files(self) -> Iterator[CacheEntry]:
        """Yield every file; those that vanish meanwhile are left out."""
        for path in self.root.glob("sha256/*/*"):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                yield CacheEntry("content", path, status.st_size, status.st_atime_ns)

    def short_keys(self) -> Iterator[str]:
        """Yield the keys by which an agent announces the largest files here, each once, sorted."""
        files = sorted(self.files(), key=lambda entry: entry.size_bytes, reverse=True)
        names = {_name_of(entry.path) for entry in files[:_MOST_ANNOUNCED]}
        records = self.root.glob("index/*.json")
        keys = (record.stem for record in records if read_record(record).get("sha256") in names)
        yield from sorted({*map(shortened, keys), *(short_key(f"sha256:{name}") for name in names)})

    def entries(self) -> Iterator[CacheEntry]:
        """Yield every entry that takes space; entries that vanish meanwhile are left out."""
        yield from self.files()
        for path in self.root.glob("trees/*/*"):
            with contextlib.suppress(FileNotFoundError):
                record = read_record(self.checked(f"tree {_name_of(path)}"))
                size_bytes = int(record.get("size_bytes", 0))
                yield CacheEntry("tree", path, size_bytes, path.stat().st_atime_ns)
        for path in self.root.glob("partial/*"):
            if path.suffix:
                continue
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                reserved = read_record(path.with_name(f"{path.name}.json")).get(RESERVED, 0)
                yield CacheEntry("partial", path, max(status.st_size, reserved), status.st_mtime_ns)

    def used_bytes(self) -> int:
        """Return the size of all entries."""
        return sum(entry.size_bytes for entry in self.entries())


def make_room(layout: CacheLayout, more_bytes: int, limit_bytes: int) -> None:
    """Evict the least recently used entries of `layout` until `more_bytes` fit into `limit_bytes`.

    Pinned entries are not evicted. Raises CacheFull.
    """
    # Remove what a process that was killed during an eviction left.
    for path in layout.root.glob("gone/*"):
        shutil.rmtree(path, ignore_errors=True)
    entries = sorted(layout.entries(), key=lambda entry: entry.used_ns)
    excess = sum(entry.size_bytes for entry in entries) + more_bytes - limit_bytes
    if excess <= 0:
        return
    for entry in entries:
        if excess > 0 and _evict(layout, entry):
            excess -= entry.size_bytes
    for path in layout.root.glob("index/*.json"):
        if not layout.content(str(read_record(path).get("sha256", ""))).is_file():
            path.unlink(missing_ok=True)
    if excess > 0:
        raise CacheFull(str(layout.root), more_bytes, limit_bytes)


def remove_tree(layout: CacheLayout, path: Path) -> None:
    """Remove an unpacked archive: one rename takes it out of its path, then it is deleted."""
    gone = layout.root / "gone" / secrets.token_hex(8)
    with contextlib.suppress(FileNotFoundError):
        path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _evict(layout: CacheLayout, entry: CacheEntry) -> bool:
    """Remove an entry unless it is pinned; tell whether it is gone."""
    try:
        descriptor = try_lock(entry.path, "exclusive")
    except FileNotFoundError:
        return True
    if descriptor is None:
        return False
    try:
        match entry.kind:
            case "content":
                entry.path.unlink()
                layout.checked(_name_of(entry.path)).unlink(missing_ok=True)
            case "tree":
                remove_tree(layout, entry.path)
                layout.checked(f"tree {_name_of(entry.path)}").unlink(missing_ok=True)
            case _:
                shutil.rmtree(f"{entry.path}.d", ignore_errors=True)
                entry.path.with_name(f"{entry.path.name}.json").unlink(missing_ok=True)
                entry.path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
    return True


def _name_of(path: Path) -> str:
    return path.parent.name + path.name
