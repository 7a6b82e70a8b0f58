"""What lies on the agent's own host: only below what its owner allows, and checked where asked."""

import hashlib
from pathlib import Path

import pytest

from mlscope.assets.addresses import FileSource
from services.agent.errors import FileMissing, FolderForbidden, WrongChecksum
from services.agent.fetching.in_place import locate_in_place
from services.agent.fetching.requests import AssetRequest

SUM = hashlib.sha256(b"A").hexdigest()


def a_need(path: str, checksum: str = "") -> AssetRequest:
    """Return the need of a file or folder."""
    return AssetRequest(path, FileSource(path), checksum, below="datasets", in_place=True)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Make a manifests folder, a folder that is allowed and one that is not."""
    for name in ("manifests/datasets/x", "allowed/x", "other/x"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"A")
    (tmp_path / "allowed" / "link").symlink_to(tmp_path / "other" / "x")
    return tmp_path


def brought(host: Path, path: str, checksum: str = "") -> tuple[Path, str]:
    """Return where a need is placed, and its sha256."""
    found = locate_in_place(a_need(path, checksum), host / "manifests", (str(host / "allowed"),))
    return found.path, found.sha256


def test_files_and_folders_that_are_allowed(host: Path) -> None:
    assert brought(host, "x") == (host / "manifests" / "datasets" / "x", SUM)
    assert brought(host, str(host / "allowed" / "x"), f"sha256:{SUM}")[1] == SUM
    assert brought(host, str(host / "allowed")) == (host / "allowed", "")
    md5 = hashlib.md5(b"A").hexdigest()
    assert brought(host, "x", f"md5:{md5}")[1] == SUM


@pytest.mark.parametrize("path", ["other/x", "allowed/../other/x", "allowed/link"])
def test_all_else_is_forbidden(host: Path, path: str) -> None:
    with pytest.raises(FolderForbidden, match="allowed"):
        brought(host, str(host / path))
    with pytest.raises(FolderForbidden):
        brought(host, f"../../{path}")


def test_what_is_not_as_said(host: Path) -> None:
    with pytest.raises(WrongChecksum):
        brought(host, "x", "sha256:" + "0" * 64)
    with pytest.raises(FileMissing, match="no such file"):
        brought(host, "none")
    with pytest.raises(FileMissing, match="has no checksum"):
        brought(host, str(host / "allowed"), f"sha256:{SUM}")
