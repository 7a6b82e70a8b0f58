"""The cache of one host: files by their sha256, unpacked archives by that of the archive.

    sha256/ab/cdef…    a file, read-only, named by its content
    trees/ab/cdef…     what an archive of that sha256 held
    partial/<key>      a download under way (its lock too), `.json` what is known of its origin
    index/<key>        which sha256 an address or md5 stands for
    checked/<key>      how a file or tree looked when it was last checked in full

What is in use is locked (shared) and not evicted. A file comes into its place by one rename, so a
process killed at any moment leaves no bad entry; what it leaves is found again or evicted.
"""

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mlscope.assets.checksums import Checksum, checked_digest
from mlscope.assets.errors import (
    AssetTooLarge,
    CacheFull,
    CacheUnusable,
    ChecksumMismatch,
    StillBusy,
)
from mlscope.assets.eviction import RESERVED, Places, make_room, remove_tree
from mlscope.assets.locks import is_still_at, share, try_lock, waiting_lock
from mlscope.assets.partial import Partial
from mlscope.assets.records import Stamp, key_of, read_record, tree_stamp, write_record

_log = logging.getLogger(__name__)
_POLL_S = 0.05
_MOMENT_S = 20.0


class Held:
    """A file or folder that stays where it is until this is closed; also a context manager."""

    def __init__(self, path: Path, sha256: str, descriptor: int | None = None) -> None:
        """`sha256` is that of the file, or of the archive a folder came from."""
        self.path = path
        self.sha256 = sha256
        self._descriptor = descriptor

    def close(self) -> None:
        """Let go of it; again does no harm."""
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
    """The cache below one folder, at most `limit_bytes` large; processes share it."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        """Make the folder. Raises CacheUnusable."""
        self._root = root.absolute()
        self.limit_bytes = limit_bytes
        self._places = Places(self._root)
        try:
            for folder in self._places.folders:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise CacheUnusable(str(root), error.strerror or str(error)) from error

    def hold(self, sha256: str, *, full: bool = False) -> Held | None:
        """Return the file of this sha256, None when it is not here.

        It is hashed when it changed since the last time, or with `full`; one that is not what
        its name says is removed. Raises StillBusy, OSError.
        """
        path = self._places.content(sha256)
        descriptor = self._shared(path)
        if descriptor is None:
            return None
        stamp = Stamp.of(os.fstat(descriptor))
        checked = self._places.checked(sha256)
        if full or read_record(checked) != _record(stamp):
            try:
                checked_digest(path, Checksum("sha256", sha256), str(path))
            except ChecksumMismatch as error:
                _log.warning("a cached file was altered and is removed: %s", error)
                if is_still_at(descriptor, path):
                    path.unlink(missing_ok=True)
                os.close(descriptor)
                return None
            write_record(checked, _record(stamp))
        return self._used(path, sha256, descriptor, stamp.mtime_ns)

    def hold_tree(self, sha256: str) -> Held | None:
        """Return the folder an archive of this sha256 was unpacked to, None when it is not here."""
        path = self._places.tree(sha256)
        descriptor = self._shared(path)
        if descriptor is None:
            return None
        if read_record(self._places.checked(f"tree {sha256}")).get("stamp") != tree_stamp(path):
            _log.warning("an unpacked archive was altered and is removed: %s", path)
            remove_tree(self._places, path)
            os.close(descriptor)
            return None
        return self._used(path, sha256, descriptor, os.fstat(descriptor).st_mtime_ns)

    def _used(self, path: Path, sha256: str, descriptor: int, mtime_ns: int) -> Held:
        # The access time is the order of eviction; a mount without access times keeps this one.
        os.utime(descriptor, ns=(time.time_ns(), mtime_ns))
        return Held(path, sha256, descriptor)

    def _shared(self, path: Path) -> int | None:
        """Lock what is there; whoever holds it alone is about to remove it or has just made it."""
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

    def alone(
        self,
        key: str,
        address: str,
        wanted: Checksum | None,
        look: Callable[[], Held | None],
        wait_s: float,
    ) -> Held | Partial:
        """Return what `look` finds, or a partial file that this process alone may fill.

        While another process fills it, this one waits. Raises StillBusy.
        """
        path = self._places.partial(key_of(key))
        end_s = time.monotonic() + wait_s
        while True:
            descriptor = try_lock(path, "exclusive", make=True)
            if descriptor is not None:
                partial = Partial(path, descriptor, address, wanted, self._reserve)
                break
            if time.monotonic() >= end_s:
                raise StillBusy(address, wait_s)
            time.sleep(_POLL_S)
        try:
            held = look()
        except BaseException:
            partial.close()
            raise
        if held is not None:
            partial.discard()
            return held
        return partial

    def adopt(self, partial: Partial) -> Held:
        """Take a complete partial file in, once it is checked. Raises ChecksumMismatch."""
        sha256 = partial.finish()
        path = self._places.content(sha256)
        path.parent.mkdir(exist_ok=True)
        stamp = Stamp.of(partial.path.stat())
        write_record(self._places.checked(sha256), _record(stamp))
        partial.path.replace(path)
        descriptor = partial.release()
        os.fchmod(descriptor, 0o444)
        share(descriptor)
        return self._used(path, sha256, descriptor, stamp.mtime_ns)

    def adopt_tree(self, folder: Path, sha256: str) -> Held:
        """Take a folder (on this filesystem) in as what the archive of this sha256 holds."""
        path = self._places.tree(sha256)
        path.parent.mkdir(exist_ok=True)
        size_bytes = sum(each.lstat().st_size for each in folder.rglob("*") if each.is_file())
        record = {"stamp": tree_stamp(folder), "size_bytes": size_bytes}
        write_record(self._places.checked(f"tree {sha256}"), record)
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        share(descriptor)
        folder.replace(path)
        return self._used(path, sha256, descriptor, os.fstat(descriptor).st_mtime_ns)

    def indexed(self, key: str) -> Mapping[str, Any]:
        """Return what is recorded of an address or md5: its `sha256` and validators, or nothing."""
        return read_record(self._places.index(key))

    def index(self, key: str, record: Mapping[str, Any]) -> None:
        """Record what an address or md5 stands for."""
        write_record(self._places.index(key), {"of": key, **record})

    def checked_in_place(self, path: Path, wanted: Checksum, address: str) -> str:
        """Return the sha256 of a file outside the cache, hashed only when it changed.

        Raises ChecksumMismatch, OSError.
        """
        stamp = _record(Stamp.of(path.stat()))
        checked = self._places.checked(f"{wanted} {path}")
        known = read_record(checked)
        if {name: known.get(name) for name in stamp} == stamp:
            return str(known["sha256"])
        sha256 = checked_digest(path, wanted, address)
        write_record(checked, {**stamp, "sha256": sha256})
        return sha256

    def used_bytes(self) -> int:
        """Return how much the cache holds."""
        return self._places.used_bytes()

    def _reserve(self, partial: Partial, least_bytes: int, most_bytes: int) -> int:
        """Evict what is needed for a file of `least_bytes`, better `most_bytes`; return which."""
        if least_bytes > self.limit_bytes:
            raise AssetTooLarge(partial.address, least_bytes, self.limit_bytes)
        here_bytes = max(partial.size_bytes, partial.reserved_bytes)
        size_bytes = min(most_bytes, self.limit_bytes)
        with waiting_lock(self._root / "room"):
            try:
                make_room(self._places, size_bytes - here_bytes, self.limit_bytes)
            except CacheFull:
                size_bytes = least_bytes
                make_room(self._places, size_bytes - here_bytes, self.limit_bytes)
            partial.note_origin({**partial.origin(), RESERVED: size_bytes})
        return size_bytes


@contextmanager
def folder_beside(partial: Partial) -> Iterator[Path]:
    """Lend an empty folder on the cache's filesystem; what is still in it in the end is removed."""
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
