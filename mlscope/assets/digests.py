"""Digests of files, compared with their checksums (I/O)."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from mlscope.assets.checksums import Checksum
from mlscope.assets.errors import ChecksumMismatch

_BLOCK_BYTES = 1 << 20


class Digests:
    """Running digests of some content: always sha256, and md5 if that is expected."""

    def __init__(self, expected: Checksum | None) -> None:
        self._expected = expected
        self._hashes = {"sha256": hashlib.sha256()}
        if expected is not None and expected.algorithm == "md5":
            self._hashes["md5"] = hashlib.md5(usedforsecurity=False)

    def update(self, blocks: Iterable[bytes]) -> None:
        """Add more of the content."""
        for block in blocks:
            for running_hash in self._hashes.values():
                running_hash.update(block)

    def update_from(self, path: Path) -> None:
        """Add the content of a file."""
        with path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK_BYTES):
                self.update((block,))

    @property
    def sha256(self) -> str:
        """The sha256 of the content so far, in hexadecimal."""
        return self._hashes["sha256"].hexdigest()

    def check(self, address: str) -> None:
        """Compare with the expected checksum, if there is one. Raises ChecksumMismatch."""
        if self._expected is None:
            return
        actual = self._hashes[self._expected.algorithm.removesuffix("-prefix")].hexdigest()
        compared = actual[: len(self._expected.digest)] if self._expected.is_prefix else actual
        if compared != self._expected.digest:
            raise ChecksumMismatch(address, self._expected.algorithm, self._expected.digest, actual)


def checked_digest(path: Path, expected: Checksum | None, address: str) -> str:
    """Return the sha256 of the file at `path`, checked against `expected` if given.

    `address` names the file in errors. Raises ChecksumMismatch, OSError.
    """
    digests = Digests(expected)
    digests.update_from(path)
    digests.check(address)
    return digests.sha256
