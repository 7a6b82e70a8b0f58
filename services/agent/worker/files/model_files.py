"""Files of models and datasets in a worker: checked, and never fetched by the worker itself.

A worker runs other people's models, so it has neither the broker nor the hub's token: the host
fetches files from elsewhere first (`fetching`) and sends their paths. Files below the manifests
folder the worker reads itself.
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import unquote, urlsplit

from mlscope.assets.addresses import (
    ArtifactSource,
    FileSource,
    HttpSource,
    HubSource,
    PackageSource,
    Source,
)
from schemas.manifest import ModelManifest
from services.agent.errors import ChecksumMissing, FileMissing, PathOutsideManifests
from services.agent.link.checked_files import (
    checked_sha256,
    checksum_of,
    file_bytes,
    source_of,
)
from services.agent.link.fetched_file import NO_FILES, FetchedFile

_FOLDER_DIGITS = 16
"""Digits of a sha256 in the name of a folder for one origin."""


class AssetFolder:
    """The manifests folder of this agent; notes the checksums of the files it read, by path.

    The manifests of a `kind` lie in a folder of their own below `manifests_folder`, and their files
    beside them. `fetched` are files from elsewhere, by address; files are unpacked into `scratch`.
    """

    def __init__(
        self,
        manifests_folder: Path,
        kind: Literal["models", "datasets"],
        fetched: Mapping[str, FetchedFile] = NO_FILES,
        scratch: Path | None = None,
    ) -> None:
        self._root = self.manifests_folder = manifests_folder.resolve()
        self._folder = self._root / kind
        self.fetched, self.scratch = fetched, scratch
        self.checksums: dict[str, str] = {}
        #: what a reader of results should know of the files
        self.notes: list[str] = []

    def locate(self, relative: str, *, folders: bool = False) -> Path:
        """Return the file that a manifest's path leads to; with `folders` also a folder.

        Raises PathOutsideManifests, FileMissing.
        """
        path = (self._folder / relative).resolve()
        if not path.is_relative_to(self._root):
            raise PathOutsideManifests(relative)
        if not path.is_file() and not (folders and path.is_dir()):
            raise FileMissing(relative, "no such file below the manifests folder")
        return path

    def fetched_file(self, address: str) -> FetchedFile:
        """Return the file fetched from an address. Raises FileMissing."""
        return _fetched_file(self.fetched, address)

    def read(self, relative: str, checksum: str) -> bytes:
        """Return a file's bytes, once they fit its checksum.

        Raises PathOutsideManifests, FileMissing, ChecksumMissing, WrongChecksum.
        """
        if not checksum:
            raise ChecksumMissing(relative)
        body = file_bytes(self.locate(relative), relative)
        self.checksums[relative] = checked_sha256(relative, body, checksum)
        return body


def _fetched_file(fetched: Mapping[str, FetchedFile], address: str) -> FetchedFile:
    if address not in fetched:
        raise FileMissing(address, "was not fetched to this host")
    return fetched[address]


class ModelFiles:
    """The files of one `model` by the names its manifest gives them.

    `folder` is the models' folder; `fetched` is by address. A fetched file gets its own name in
    `scratch`, because frameworks look at a file's ending, and for further files beside a graph.
    """

    def __init__(
        self,
        folder: AssetFolder,
        model: ModelManifest,
        fetched: Mapping[str, FetchedFile] = NO_FILES,
        scratch: Path = Path(),
    ) -> None:
        self._folder = folder
        self._assets = model.model
        self._fetched = fetched
        self._scratch = scratch / "assets"
        #: what a reader of results should know of the files
        self.notes: list[str] = []

    @property
    def checksums(self) -> dict[str, str]:
        """The checksums of the files used so far: path or address to `sha256:…`."""
        return self._folder.checksums

    def graph(self) -> tuple[Path, bytes]:
        """Return the model file's path and checked bytes, for a folder no bytes.

        Both are empty for a model without a file (a server has it, or a user's own predictor).
        Raises FileUnusable.
        """
        if not self._assets.graph_path and not self._assets.archive:
            return Path(), b""
        path = self._locate(self._assets.graph_path, self._assets.checksum)
        return path, b"" if path.is_dir() else file_bytes(path, self._assets.graph_path)

    def weights(self) -> Path | None:
        """Return the checked weights file, or None when the graph holds them or they are `random`.

        Raises FileUnusable.
        """
        assets = self._assets
        if assets.weights == "random":
            self.notes.append(f"the weights are random (seed {assets.seed}): there is no accuracy")
            return None
        if not assets.weights_path:
            return None
        return self._locate(assets.weights_path, assets.weights_checksum)

    def further(self) -> dict[str, bytes]:
        """Return the model's further files, checked, by the manifest's names.

        Raises FileUnusable.
        """
        checksums = self._assets.assets
        return {name: file_bytes(self._locate(name, checksums[name]), name) for name in checksums}

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the lines of a label file. Raises FileUnusable."""
        path = self._locate(name, self._assets.assets.get(name, ""))
        return tuple(file_bytes(path, name).decode("utf-8", errors="replace").splitlines())

    def _locate(self, name: str, checksum: str) -> Path:
        """Return the checked file of a name."""
        if self._assets.archive:
            source = source_of(self._assets, self._assets.archive)
            archive = _fetched_file(self._fetched, source.address)
            self._folder.checksums[source.address] = f"sha256:{archive.sha256}"
            root = archive.path.resolve()
            path = (root / name).resolve()
            if not path.is_relative_to(root):
                raise PathOutsideManifests(name)
            if not path.exists():
                raise FileMissing(name, f"{source.address} holds no such file")
            if checksum and path.is_file():
                body = file_bytes(path, name)
                self._folder.checksums[name] = checked_sha256(name, body, checksum)
            return path
        source = source_of(self._assets, name)
        if isinstance(source, FileSource):
            self._note_weak_checksum(name, source, checksum)
            self._folder.read(source.path, checksum)
            return self._folder.locate(source.path)
        file = _fetched_file(self._fetched, source.address)
        self._folder.checksums[source.address] = f"sha256:{file.sha256}"
        self._note_weak_checksum(name, source, checksum)
        return linked_under_own_name(file.path, self._scratch, name, source)

    def _note_weak_checksum(self, name: str, source: Source, checksum: str) -> None:
        """Note where a fetched file was checked against part of a checksum, or none."""
        expected = checksum_of(checksum)
        if expected is not None and expected.is_prefix:
            digits = len(expected.digest)
            self.notes.append(f"{name}: only the first {digits} digits of its sha256 are known")
        elif expected is None and isinstance(source, HttpSource | HubSource):
            self.notes.append(
                f"{name}: the manifest gives no checksum; `checksums` has that of the file used"
            )


def linked_under_own_name(path: Path, scratch: Path, name: str, source: Source) -> Path:
    """Return a link to `path`, a file of the cache, under the file's own name, below `scratch`.

    `name` is what the manifest calls it, and `source` is where it comes from. Raises FileMissing.
    Files that were in one folder at their origin are in one folder here, so that a graph finds its
    further files: names relative to the base URL keep their folders, and files with addresses of
    their own share a folder by origin.
    """
    relative = PurePosixPath(name)
    is_address = name == source.address or name.startswith("file:")
    if is_address or relative.is_absolute() or ".." in relative.parts:
        origin, own_name = origin_of(source)
        digest = hashlib.sha256(origin.encode()).hexdigest()
        relative = PurePosixPath(digest[:_FOLDER_DIGITS], own_name)
    target = scratch / relative
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the cache may be on another filesystem
            os.link(path, target)
            return target
        target.symlink_to(path)
    except OSError as error:
        raise FileMissing(name, error.strerror or str(error)) from error
    return target


def origin_of(source: Source) -> tuple[str, str]:
    """Return a text for the folder that a file comes from, and the file's name there."""
    host, query = "", ""
    match source:
        case ArtifactSource():
            path = source.name
        case HttpSource():
            parts = urlsplit(source.url)
            path, host, query = unquote(parts.path), parts.netloc, parts.query
        case PackageSource():
            path = source.path or f"{source.package}-{source.version}.whl"
            host = source.requirement
        case HubSource():
            path, host = source.path, f"{source.repository}@{source.revision}"
        case FileSource():
            path = source.path
    file = PurePosixPath(path)
    return f"{type(source).__name__} {host} {file.parent} {query}", file.name or "file"
