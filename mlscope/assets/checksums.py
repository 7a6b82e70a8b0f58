"""Checksums: sha256, and md5 where an old manifest has nothing better. Pure."""

import re
from dataclasses import dataclass

from mlscope.assets.errors import BadChecksum

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
