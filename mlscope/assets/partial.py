"""An incomplete file: locked by the one process that fills it, kept for the next try."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mlscope.assets.checksums import Checksum
from mlscope.assets.digests import Digests
from mlscope.assets.errors import CacheUnusable, ChecksumMismatch
from mlscope.assets.eviction import RESERVED
from mlscope.assets.records import read_record, write_record

Reserve = Callable[["Partial", int, int], int]
"""Makes room for a file of at least, and preferably, a number of bytes; returns the bytes reserved.

Raises AssetTooLarge, CacheFull.
"""

Progress = Callable[[int, int | None], None]
"""Receives (bytes so far, bytes in all or None if unknown); called often, so it must be quick."""

_STEP_BYTES = 64 << 20


class Partial:
    """The bytes received so far and their digests, in the file `path`."""

    def __init__(
        self,
        path: Path,
        descriptor: int,
        address: str,
        expected: Checksum | None,
        reserve: Reserve,
    ) -> None:
        """Fill the file at `path`; `descriptor` is open for writing and holds its lock.

        `address` names the asset in errors, `expected` is its checksum, and `reserve` makes room.
        """
        self.path = path
        self.address = address
        self.expected = expected
        self._descriptor = descriptor
        self._reserve = reserve
        self._digests: Digests | None = None
        self.size_bytes = os.fstat(descriptor).st_size
        self.reserved_bytes = int(self.origin().get(RESERVED, 0))
        #: whether some of the bytes are from an earlier try, possibly of another process
        self.is_resumed = self.size_bytes > 0

    @property
    def _origin(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def origin(self) -> Mapping[str, Any]:
        """Return the record of the origin of the bytes so far."""
        return read_record(self._origin)

    def note_origin(self, record: Mapping[str, Any]) -> None:
        """Record the origin of the bytes, before the first one is written."""
        write_record(self._origin, {RESERVED: self.reserved_bytes, **record})

    def reserve(self, size_bytes: int) -> None:
        """Make room for a file of `size_bytes`. Raises AssetTooLarge, CacheFull."""
        if size_bytes > self.reserved_bytes:
            self.reserved_bytes = self._reserve(self, size_bytes, size_bytes)

    def restart(self) -> None:
        """Drop the bytes so far."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self.size_bytes = 0
        self.is_resumed = False
        self._digests = Digests(self.expected)

    def resume(self) -> None:
        """Continue after the bytes so far."""
        if self._digests is None:
            self._digests = Digests(self.expected)
            self._digests.update_from(self.path)
        os.lseek(self._descriptor, 0, os.SEEK_END)

    def write(self, blocks: Iterable[bytes]) -> None:
        """Append `blocks`. Raises AssetTooLarge, CacheFull, CacheUnusable."""
        assert self._digests is not None, "restart or resume first"
        for block in blocks:
            needed = self.size_bytes + len(block)
            if needed > self.reserved_bytes:
                self.reserved_bytes = self._reserve(self, needed, needed + min(needed, _STEP_BYTES))
            view = memoryview(block)
            try:
                while view:
                    written = os.write(self._descriptor, view)
                    self.size_bytes += written
                    view = view[written:]
            except OSError as error:
                self._digests = None
                raise CacheUnusable(str(self.path.parent.parent), error.strerror or "") from error
            self._digests.update((block,))

    def finish(self) -> str:
        """Check the complete file, make it durable and return its sha256.

        A file that does not match its checksum is removed. Raises ChecksumMismatch, OSError.
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
        """Return the descriptor, with its lock, once the file has its final path."""
        self._origin.unlink(missing_ok=True)
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def close(self) -> None:
        """Keep the bytes so far for a later try, and unlock the file for others."""
        if not self.size_bytes:
            self.discard()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def discard(self) -> None:
        """Remove the file and unlock it for others."""
        if self._descriptor >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self.release())
