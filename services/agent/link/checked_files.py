"""Files and their checksums, as both host and worker check them (I/O)."""

import hashlib
from functools import partial
from pathlib import Path

from mlscope.assets.addresses import Source, address_of, parse
from mlscope.assets.checksums import Checksum, parse_checksum
from mlscope.assets.errors import BadAddress, BadChecksum
from schemas.manifest import Assets
from services.agent.errors import ChecksumMissing, FetchFailed, FileMissing, WrongChecksum

_md5 = partial(hashlib.md5, usedforsecurity=False)


def source_of(assets: Assets, name: str) -> Source:
    """Return where a model's file of this name is. Raises FetchFailed."""
    try:
        return parse(address_of(assets, name))
    except BadAddress as error:
        raise FetchFailed(str(error)) from error


def checksum_of(text: str) -> Checksum | None:
    """Return a manifest's checksum; a malformed one becomes a sha256 that no file has."""
    try:
        return parse_checksum(text)
    except BadChecksum:
        return Checksum("sha256", text.strip().lower().removeprefix("sha256:"))


def note_checked_sha256(path: Path, name: str, checksum: str, checksums: dict[str, str]) -> None:
    """Check the file at a path against its checksum, and note its sha256 in `checksums`.

    `name` is its name in the notes and in errors. The file is read in blocks. Raises FileMissing,
    ChecksumMissing, WrongChecksum.
    """
    if not checksum:
        raise ChecksumMissing(name)
    expected = checksum_of(checksum)
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            digest = sha256
            if expected is not None and expected.algorithm == "md5":
                file.seek(0)
                digest = hashlib.file_digest(file, _md5).hexdigest()
    except OSError as error:
        raise FileMissing(name, error.strerror or str(error)) from error
    _require(name, digest, expected)
    checksums[name] = f"sha256:{sha256}"


def checked_sha256(name: str, body: bytes, checksum: str) -> str:
    """Return `sha256:…` of a file's `body`, once it fits its `checksum`; errors call it `name`.

    Raises WrongChecksum.
    """
    expected = checksum_of(checksum)
    sha256 = hashlib.sha256(body).hexdigest()
    is_md5 = expected is not None and expected.algorithm == "md5"
    _require(name, _md5(body).hexdigest() if is_md5 else sha256, expected)
    return f"sha256:{sha256}"


def file_bytes(path: Path, name: str) -> bytes:
    """Return the bytes of a file, which errors call `name`. Raises FileMissing."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileMissing(name, error.strerror or str(error)) from error


def _require(name: str, digest: str, expected: Checksum | None) -> None:
    """Raise WrongChecksum unless a digest is the expected one, or begins like it."""
    if expected is None:
        return
    compared = digest[: len(expected.digest)] if expected.is_prefix else digest
    if compared != expected.digest:
        raise WrongChecksum(name, expected.digest, digest, expected.algorithm)
