"""A file that is not whole yet: locked by the one process that fills it, kept for the next try."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mlscope.assets.checksums import Checksum, Digests
from mlscope.assets.errors import CacheUnusable, ChecksumMismatch
from mlscope.assets.eviction import RESERVED
from mlscope.assets.records import read_record, write_record

Reserve = Callable[["Partial", int, int], int]
"""Makes room for a whole of at least, and at best, so many bytes; returns how much there is.

Raises AssetTooLarge, CacheFull.
"""

Progress = Callable[[int, int | None], None]
"""Told of (bytes here, bytes in all or None while unknown); called often, so it must be quick."""

_STEP_BYTES = 64 << 20


class Partial:
    """The bytes that are here so far and their digests; `path` is theirs alone."""

    def __init__(
        self,
        path: Path,
        descriptor: int,
        address: str,
        wanted: Checksum | None,
        reserve: Reserve,
    ) -> None:
        """`descriptor` is open for writing and holds the lock."""
        self.path = path
        self.address = address
        self.wanted = wanted
        self._descriptor = descriptor
        self._reserve = reserve
        self._digests: Digests | None = None
        self.size_bytes = os.fstat(descriptor).st_size
        self.reserved_bytes = int(self.origin().get(RESERVED, 0))
        #: whether some of it is from an earlier try, possibly of another process
        self.is_resumed = self.size_bytes > 0

    @property
    def _origin(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def origin(self) -> Mapping[str, Any]:
        """Return what was noted of where the bytes so far are from."""
        return read_record(self._origin)

    def note_origin(self, record: Mapping[str, Any]) -> None:
        """Note where the bytes are from, before the first one comes."""
        write_record(self._origin, {RESERVED: self.reserved_bytes, **record})

    def reserve(self, size_bytes: int) -> None:
        """Make room for a whole of `size_bytes`. Raises AssetTooLarge, CacheFull."""
        if size_bytes > self.reserved_bytes:
            self.reserved_bytes = self._reserve(self, size_bytes, size_bytes)

    def restart(self) -> None:
        """Forget what is here."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self.size_bytes = 0
        self.is_resumed = False
        self._digests = Digests(self.wanted)

    def resume(self) -> None:
        """Go on behind what is here."""
        if self._digests is None:
            self._digests = Digests(self.wanted)
            self._digests.update_from(self.path)
        os.lseek(self._descriptor, 0, os.SEEK_END)

    def write(self, blocks: Iterable[bytes]) -> None:
        """Add to the end. Raises AssetTooLarge, CacheFull, CacheUnusable."""
        assert self._digests is not None, "restart or resume first"
        for block in blocks:
            needed = self.size_bytes + len(block)
            if needed > self.reserved_bytes:
                self.reserved_bytes = self._reserve(self, needed, needed + min(needed, _STEP_BYTES))
            self._append(block)
            self._digests.update((block,))

    def _append(self, block: bytes) -> None:
        view = memoryview(block)
        try:
            while view:
                written = os.write(self._descriptor, view)
                self.size_bytes += written
                view = view[written:]
        except OSError as error:
            self._digests = None
            raise CacheUnusable(str(self.path.parent.parent), error.strerror or "") from error

    def finish(self) -> str:
        """Check the whole and make it durable; return its sha256.

        What is not as its checksum says is removed. Raises ChecksumMismatch, OSError.
        """
        self.resume()
        assert self._digests is not None, "resumed"
        try:
            self._digests.check(self.address)
        except ChecksumMismatch:
            self.discard()
            raise
        os.fsync(self._descriptor)
        return self._digests.sha256

    def release(self) -> int:
        """Return the descriptor, lock and all, once the file has its final place."""
        self._origin.unlink(missing_ok=True)
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def close(self) -> None:
        """Keep what is here, if anything, for a later try and let others go on."""
        if not self.size_bytes:
            self.discard()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def discard(self) -> None:
        """Remove what is here and let others go on."""
        if self._descriptor >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self.release())
