"""Datasets of this host that are read where they lie: only where the agent's owner allows it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from mlscope.assets.addresses import FileSource
from services.agent.assets import Brought, checked_digest
from services.agent.errors import AssetMissing, FolderForbidden
from services.agent.needs import Need

HASHED_BYTES = 1 << 30
"""Size up to which a file without checksum is hashed all the same, so that the record names it."""


def placed(need: Need, manifests_folder: Path, allowed: Sequence[str]) -> Brought:
    """Return a file or folder where it lies; its sha256 is '' of a folder, or where nobody asked.

    A relative path starts from the manifests' datasets, an absolute one must be below a folder
    that is `allowed`, or the manifests'. Raises AssetMissing, FolderForbidden, ChecksumMismatch.
    """
    assert isinstance(need.source, FileSource), "only a file or folder of this host lies in place"
    path = (manifests_folder / need.below / need.source.path).resolve()
    roots = [manifests_folder.resolve(), *(Path(each).expanduser().resolve() for each in allowed)]
    if not any(path.is_relative_to(root) for root in roots):
        raise FolderForbidden(need.source.path, allowed)
    if not path.exists():
        raise AssetMissing(need.source.address, "no such file or folder on the agent's host")
    if path.is_dir():
        if need.checksum:
            reason = "is a folder, which has no checksum; leave it out, or give an archive"
            raise AssetMissing(need.source.address, reason)
        return Brought(path, "")
    if need.checksum:
        found: dict[str, str] = {}
        checked_digest(path, need.source.address, need.checksum, found)
        return Brought(path, found[need.source.address].removeprefix("sha256:"))
    return Brought(path, _sha256(path) if path.stat().st_size <= HASHED_BYTES else "")


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise AssetMissing(str(path), error.strerror or str(error)) from error
