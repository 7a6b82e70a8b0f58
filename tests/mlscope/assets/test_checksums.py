"""Checksums: their forms, and both digests in a mismatch."""

import hashlib
from pathlib import Path

import pytest

from mlscope.assets.checksums import Checksum, parse_checksum
from mlscope.assets.digests import checked_digest
from mlscope.assets.errors import BadChecksum, ChecksumMismatch

SHA256 = hashlib.sha256(b"x").hexdigest()
MD5 = hashlib.md5(b"x").hexdigest()


@pytest.mark.parametrize(
    ("text", "checksum"),
    [
        (f"sha256:{SHA256}", Checksum("sha256", SHA256)),
        (SHA256.upper(), Checksum("sha256", SHA256)),
        (f"md5:{MD5}", Checksum("md5", MD5)),
        (f" md5={MD5}", Checksum("md5", MD5)),
        (MD5, Checksum("md5", MD5)),
        (f"sha256-prefix:{SHA256[:8]}", Checksum("sha256-prefix", SHA256[:8])),
        ("", None),
    ],
)
def test_each_form_is_read(text: str, checksum: Checksum | None) -> None:
    assert parse_checksum(text) == checksum


@pytest.mark.parametrize(
    "text",
    [
        "sha1:abc",
        f"md5:{SHA256}",
        SHA256[:-1],
        "sha256:",
        "x" * 64,
        f"sha256-prefix:{SHA256[:7]}",
        f"sha256-prefix:{SHA256}",
        "sha256-prefix:",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadChecksum):
        parse_checksum(text)


@pytest.mark.parametrize(
    "checksum",
    [
        Checksum("sha256", SHA256),
        Checksum("md5", MD5),
        Checksum("sha256-prefix", SHA256[:8]),
    ],
)
def test_a_file_is_compared(tmp_path: Path, checksum: Checksum) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x")
    assert checked_digest(path, checksum, "x") == SHA256
    path.write_bytes(b"y")
    with pytest.raises(ChecksumMismatch) as error:
        checked_digest(path, checksum, "here")
    found = hashlib.new(checksum.algorithm.removesuffix("-prefix"), b"y").hexdigest()
    assert (
        str(error.value) == f"asset here: {checksum.algorithm} {found}, expected {checksum.digest}"
    )
