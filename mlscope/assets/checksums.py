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
    """What a file's content must come to: the algorithm and the digest in hexadecimal.

    Of the algorithm `sha256-prefix` only the digest's first digits are known.
    """

    algorithm: str
    digest: str

    @property
    def is_prefix(self) -> bool:
        """Whether only the digest's first digits are known."""
        return self.algorithm == "sha256-prefix"

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.digest}"


def parse_checksum(text: str) -> Checksum | None:
    """Return the checksum a manifest gives, None for an empty text. Raises BadChecksum.

    `sha256:…`, `md5:…`, or the digest alone, which tells its algorithm by its length; or
    `sha256-prefix:…`, the first 8 digits or more of a sha256, as names of files carry them.
    """
    if not text:
        return None
    text = text.strip().lower()
    if prefix := _PREFIX.fullmatch(text):
        return Checksum("sha256-prefix", prefix[1])
    found = _FORM.fullmatch(text)
    algorithm = _DIGITS.get(len(found[2])) if found else None
    if found is None or algorithm is None or found[1] not in (None, algorithm):
        raise BadChecksum(text)
    return Checksum(algorithm, found[2])


class Digests:
    """The digests of what passed by: always sha256, and md5 when it is asked for."""

    def __init__(self, wanted: Checksum | None) -> None:
        self._wanted = wanted
        self._hashes = {"sha256": hashlib.sha256()}
        if wanted is not None and wanted.algorithm == "md5":
            self._hashes["md5"] = hashlib.md5(usedforsecurity=False)

    def update(self, blocks: Iterable[bytes]) -> None:
        """Take more of the content."""
        for block in blocks:
            for each in self._hashes.values():
                each.update(block)

    def update_from(self, path: Path) -> None:
        """Take a file's whole content."""
        with path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK_BYTES):
                self.update((block,))

    @property
    def sha256(self) -> str:
        """The sha256 of what came so far."""
        return self._hashes["sha256"].hexdigest()

    def check(self, address: str) -> None:
        """Compare with what is wanted. Raises ChecksumMismatch."""
        if self._wanted is None:
            return
        found = self._hashes[self._wanted.algorithm.removesuffix("-prefix")].hexdigest()
        compared = found[: len(self._wanted.digest)] if self._wanted.is_prefix else found
        if compared != self._wanted.digest:
            raise ChecksumMismatch(address, self._wanted.algorithm, self._wanted.digest, found)


def checked_digest(path: Path, wanted: Checksum | None, address: str) -> str:
    """Return a file's sha256, once it is what `wanted` says. Raises ChecksumMismatch, OSError."""
    digests = Digests(wanted)
    digests.update_from(path)
    digests.check(address)
    return digests.sha256
