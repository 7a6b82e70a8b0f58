"""Checksums: sha256, and md5 where an old manifest has nothing better."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mlscope.assets.errors import BadChecksum, ChecksumMismatch

_BLOCK_BYTES = 1 << 20
_FORM = re.compile(r"(?:(sha256|md5)[:=])?([0-9a-f]+)")
_DIGITS = {64: "sha256", 32: "md5"}
_PREFIX = re.compile(r"sha256-prefix[:=]([0-9a-f]{8,63})")


@dataclass(frozen=True, slots=True)
class Checksum:
    """The expected digest of a file, in hexadecimal, and its algorithm.

    With the algorithm `sha256-prefix` only the first digits of the sha256 are known.
    """

    algorithm: str
    digest: str

    @property
    def is_prefix(self) -> bool:
        """Whether only the first digits of the digest are known."""
        return self.algorithm == "sha256-prefix"

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.digest}"


def parse_checksum(text: str) -> Checksum | None:
    """Return the checksum in a manifest's `text`, None for an empty text. Raises BadChecksum.

    `sha256:…`, `md5:…`, or the digest alone, whose length tells the algorithm; or
    `sha256-prefix:…`, the first 8 or more digits of a sha256, as in the names of some files.
    """
    if not text:
        return None
    text = text.strip().lower()
    if prefix := _PREFIX.fullmatch(text):
        return Checksum("sha256-prefix", prefix[1])
    match = _FORM.fullmatch(text)
    algorithm = _DIGITS.get(len(match[2])) if match else None
    if match is None or algorithm is None or match[1] not in (None, algorithm):
        raise BadChecksum(text)
    return Checksum(algorithm, match[2])


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
