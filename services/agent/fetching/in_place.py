"""Datasets of this host that are read where they lie: only where the agent's owner allows it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from mlscope.assets.addresses import FileSource
from services.agent.errors import FileMissing, FolderForbidden
from services.agent.fetching.requests import AssetRequest
from services.agent.link.checked_files import note_checked_sha256
from services.agent.link.fetched_file import FetchedFile

HASHED_BYTES = 1 << 30
"""Size up to which a file without checksum is hashed all the same, so that the record names it."""


def locate_in_place(
    request: AssetRequest, manifests_folder: Path, allowed_folders: Sequence[str]
) -> FetchedFile:
    """Return a file or folder of this host where it lies.

    The path of a `request` starts from the datasets below `manifests_folder`; an absolute one must
    lie below that folder or one of the `allowed_folders`. Its sha256 is '' for a folder, and for a
    large file without a checksum. Raises FileMissing, FolderForbidden, WrongChecksum.
    """
    source = request.source
    assert isinstance(source, FileSource), "only a file or folder of this host can be read in place"
    path = (manifests_folder / request.below / source.path).resolve()
    folders = (Path(folder).expanduser().resolve() for folder in allowed_folders)
    if not any(path.is_relative_to(root) for root in (manifests_folder.resolve(), *folders)):
        raise FolderForbidden(source.path, allowed_folders)
    if not path.exists():
        raise FileMissing(source.address, "no such file or folder on the agent's host")
    if path.is_dir():
        if request.checksum:
            reason = "is a folder, which has no checksum; leave it out, or give an archive"
            raise FileMissing(source.address, reason)
        return FetchedFile(path, "")
    if request.checksum:
        checksums: dict[str, str] = {}
        note_checked_sha256(path, source.address, request.checksum, checksums)
        return FetchedFile(path, checksums[source.address].removeprefix("sha256:"))
    try:
        if path.stat().st_size > HASHED_BYTES:
            return FetchedFile(path, "")
        with path.open("rb") as file:
            return FetchedFile(path, hashlib.file_digest(file, "sha256").hexdigest())
    except OSError as error:
        raise FileMissing(str(path), error.strerror or str(error)) from error
