"""The cache of one host: files by their sha256, unpacked archives by the sha256 of the archive.

    sha256/ab/cdef…    a file, read-only, named by its sha256
    trees/ab/cdef…     the content of the archive with this sha256
    partial/<key>      a download in progress, also its lock; `.json` records its origin
    index/<key>        the sha256 that an address or md5 stands for
    first/<key>        the sha256 of what came first from an address of a hub
    checked/<key>      the size, time and inode of a file or tree at its last full check

Entries in use hold a shared lock and are not evicted. A file gets its final name by one rename, so
a process killed at any moment leaves no bad entry; partial files are resumed or evicted later.
"""

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mlscope.assets.checksums import Checksum
from mlscope.assets.digests import checked_digest
from mlscope.assets.errors import (
    AssetTooLarge,
    CacheFull,
    CacheUnusable,
    ChecksumMismatch,
    StillBusy,
)
from mlscope.assets.eviction import RESERVED, CacheLayout, make_room, remove_tree
from mlscope.assets.keys import key_of
from mlscope.assets.locks import is_still_at, share, try_lock, waiting_lock
from mlscope.assets.partial import Partial
from mlscope.assets.records import Stamp, read_record, tree_stamp, write_record

_log = logging.getLogger(__name__)
_POLL_S = 0.05
_MOMENT_S = 20.0


class PinnedAsset:
    """A file or folder that is not evicted until this is closed; also a context manager."""

    def __init__(self, path: Path, sha256: str, descriptor: int | None = None) -> None:
        """Pin `path` by the locked `descriptor`; None for a file outside the cache.

        `sha256` is that of the file, or of the archive that a folder was unpacked from.
        """
        self.path = path
        self.sha256 = sha256
        self._descriptor = descriptor

    def close(self) -> None:
        """Unpin the asset; further calls have no effect."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


class Cache:
    """The cache in one folder, at most `limit_bytes` large; several processes may share it."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        """Create the folder `root` if needed. Raises CacheUnusable."""
        self._root = root.absolute()
        self.limit_bytes = limit_bytes
        self._layout = CacheLayout(self._root)
        try:
            for folder in self._layout.folders:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise CacheUnusable(str(root), error.strerror or str(error)) from error

    def pin(self, sha256: str, *, full: bool = False) -> PinnedAsset | None:
        """Return the file with this sha256, None if the cache does not hold it.

        The file is hashed if it changed since its last check, or with `full`; a file that does not
        match its name is removed. Raises StillBusy, OSError.
        """
        path = self._layout.content(sha256)
        descriptor = self._lock_shared(path)
        if descriptor is None:
            return None
        stamp = Stamp.of(os.fstat(descriptor))
        checked = self._layout.checked(sha256)
        if not full and read_record(checked) == _record(stamp):
            return self._pinned(path, sha256, descriptor, stamp.mtime_ns)
        try:
            checked_digest(path, Checksum("sha256", sha256), str(path))
        except ChecksumMismatch as error:
            _log.warning("a cached file was altered and is removed: %s", error)
            if is_still_at(descriptor, path):
                path.unlink(missing_ok=True)
            os.close(descriptor)
            return None
        write_record(checked, _record(stamp))
        return self._pinned(path, sha256, descriptor, stamp.mtime_ns)

    def pin_tree(self, sha256: str) -> PinnedAsset | None:
        """Return the unpacked archive with this sha256, None if the cache does not hold it.

        Raises StillBusy, OSError.
        """
        path = self._layout.tree(sha256)
        descriptor = self._lock_shared(path)
        if descriptor is None:
            return None
        if read_record(self._layout.checked(f"tree {sha256}")).get("stamp") != tree_stamp(path):
            _log.warning("an unpacked archive was altered and is removed: %s", path)
            remove_tree(self._layout, path)
            os.close(descriptor)
            return None
        return self._pinned(path, sha256, descriptor, os.fstat(descriptor).st_mtime_ns)

    def _pinned(self, path: Path, sha256: str, descriptor: int, mtime_ns: int) -> PinnedAsset:
        # Eviction goes by the access time, set here because a mount may not update it.
        os.utime(descriptor, ns=(time.time_ns(), mtime_ns))
        return PinnedAsset(path, sha256, descriptor)

    def _lock_shared(self, path: Path) -> int | None:
        """Lock an entry, None if there is none.

        A process with the exclusive lock is about to remove the entry or has just made it, so this
        waits for it. Raises StillBusy.
        """
        end_s = time.monotonic() + _MOMENT_S
        while path.exists():
            try:
                descriptor = try_lock(path, "shared")
            except FileNotFoundError:
                return None
            if descriptor is not None:
                return descriptor
            if time.monotonic() >= end_s:
                raise StillBusy(str(path), _MOMENT_S)
            time.sleep(_POLL_S / 10)
        return None

    def claim(
        self,
        key: str,
        address: str,
        expected: Checksum | None,
        look: Callable[[], PinnedAsset | None],
        wait_s: float,
    ) -> PinnedAsset | Partial:
        """Return the asset that `look` finds, or else a partial file that only this process fills.

        `key` identifies the asset, `address` names it in errors, `expected` is its checksum. While
        another process fills the file, this one waits for up to `wait_s`. Raises StillBusy.
        """
        path = self._layout.partial(key_of(key))
        end_s = time.monotonic() + wait_s
        while True:
            descriptor = try_lock(path, "exclusive", make=True)
            if descriptor is not None:
                partial = Partial(path, descriptor, address, expected, self._reserve)
                break
            if time.monotonic() >= end_s:
                raise StillBusy(address, wait_s)
            time.sleep(_POLL_S)
        with ExitStack() as undo:
            undo.callback(partial.close)
            existing = look()
            undo.pop_all()
        if existing is not None:
            partial.discard()
            return existing
        return partial

    def adopt(self, partial: Partial) -> PinnedAsset:
        """Check a complete partial file and add it to the cache. Raises ChecksumMismatch."""
        sha256 = partial.finish()
        path = self._layout.content(sha256)
        path.parent.mkdir(exist_ok=True)
        stamp = Stamp.of(partial.path.stat())
        write_record(self._layout.checked(sha256), _record(stamp))
        partial.path.replace(path)
        descriptor = partial.release()
        os.fchmod(descriptor, 0o444)
        share(descriptor)
        return self._pinned(path, sha256, descriptor, stamp.mtime_ns)

    def adopt_tree(self, folder: Path, sha256: str) -> PinnedAsset:
        """Add a folder (of the same filesystem) as the content of the archive with this sha256."""
        path = self._layout.tree(sha256)
        path.parent.mkdir(exist_ok=True)
        size_bytes = sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())
        record = {"stamp": tree_stamp(folder), "size_bytes": size_bytes}
        write_record(self._layout.checked(f"tree {sha256}"), record)
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        share(descriptor)
        folder.replace(path)
        return self._pinned(path, sha256, descriptor, os.fstat(descriptor).st_mtime_ns)

    def indexed(self, key: str) -> Mapping[str, Any]:
        """Return the index record of an address or md5: its `sha256` and validators, or empty."""
        return read_record(self._layout.index(key))

    def index(self, key: str, record: Mapping[str, Any]) -> None:
        """Write the index record of an address or md5."""
        write_record(self._layout.index(key), {"of": key, **record})

    def first_sha256(self, address: str, sha256: str) -> str:
        """Return the sha256 of what came first from an `address`: `sha256` if that is the first.

        A cache of release 0.1 has no such record: what its index knows of the address came first.
        """
        path = self._layout.first(address)
        if first := read_record(path).get("sha256"):
            return str(first)
        first = self.indexed(address).get("sha256", sha256)
        write_record(path, {"of": address, "sha256": first})
        return str(first)

    def checked_in_place(self, path: Path, expected: Checksum, address: str) -> str:
        """Return the sha256 of the file at `path`, outside the cache, checked against `expected`.

        The file is hashed only if it changed since the last check. `address` names it in errors.
        Raises ChecksumMismatch, OSError.
        """
        stamp = _record(Stamp.of(path.stat()))
        checked = self._layout.checked(f"{expected} {path}")
        record = read_record(checked)
        if {name: record.get(name) for name in stamp} == stamp:
            return str(record["sha256"])
        sha256 = checked_digest(path, expected, address)
        write_record(checked, {**stamp, "sha256": sha256})
        return sha256

    def used_bytes(self) -> int:
        """Return the size of the cache in bytes."""
        return self._layout.used_bytes()

    def _reserve(self, partial: Partial, least_bytes: int, most_bytes: int) -> int:
        """Make room for `most_bytes`, or at least `least_bytes`, and return the bytes reserved."""
        if least_bytes > self.limit_bytes:
            raise AssetTooLarge(partial.address, least_bytes, self.limit_bytes)
        counted_bytes = max(partial.size_bytes, partial.reserved_bytes)
        size_bytes = min(most_bytes, self.limit_bytes)
        with waiting_lock(self._root / "room"):
            try:
                make_room(self._layout, size_bytes - counted_bytes, self.limit_bytes)
            except CacheFull:
                size_bytes = least_bytes
                make_room(self._layout, size_bytes - counted_bytes, self.limit_bytes)
            partial.note_origin({**partial.origin(), RESERVED: size_bytes})
        return size_bytes


@contextmanager
def folder_beside(partial: Partial) -> Iterator[Path]:
    """Lend an empty folder on the cache's filesystem; its remaining content is removed on exit."""
    folder = partial.path.with_name(f"{partial.path.name}.d")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _record(stamp: Stamp) -> Mapping[str, Any]:
    return {
        "size_bytes": stamp.size_bytes,
        "mtime_ns": stamp.mtime_ns,
        "inode": stamp.inode,
    }
