"""Files of models and datasets as a worker finds them: checked, and never fetched by itself.

A worker runs other people's models, so it gets neither the broker nor the hub's token: what is
elsewhere the agent brings before (`bringing`), and tells where it lies. Files below the manifests
folder the worker reads itself.
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Literal
from urllib.parse import unquote, urlsplit

from mlscope.assets.addresses import (
    ArtifactSource,
    FileSource,
    HttpSource,
    HubSource,
    PackageSource,
    Source,
    address_of,
    parse,
)
from mlscope.assets.checksums import Checksum, parse_checksum
from mlscope.assets.errors import BadAddress, BadChecksum
from schemas.manifest import Assets, ModelManifest
from services.agent.errors import (
    AssetMissing,
    AssetUnchecked,
    AssetUnusable,
    ChecksumMismatch,
    PathEscapes,
)


@dataclass(frozen=True, slots=True)
class Brought:
    """What the agent fetched: a file or the folder of an archive, and the sha256 of either file.

    `lost` says why a file that others do without could not be had; then it has no path.
    """

    path: Path
    sha256: str
    lost: str = ""


NOTHING: Mapping[str, Brought] = MappingProxyType({})
"""Nothing was brought: every file is below the manifests folder."""


class AssetFolder:
    """The manifests folder of this agent; keeps what it checked as `checksums`, by path.

    A manifest of a kind lies in the folder of its kind, and its files beside it. `brought` is what
    is elsewhere, by address; `scratch` a folder to unpack into.
    """

    def __init__(
        self,
        manifests_folder: Path,
        kind: Literal["models", "datasets"],
        brought: "Mapping[str, Brought]" = NOTHING,
        scratch: Path | None = None,
    ) -> None:
        self._root = manifests_folder.resolve()
        self._folder = self._root / kind
        self.brought, self.scratch = brought, scratch
        self.checksums: dict[str, str] = {}
        #: what a reader of results should know of the files
        self.notes: list[str] = []

    def locate(self, relative: str, *, folders: bool = False) -> Path:
        """Return where a manifest's path leads: to a file. Raises PathEscapes, AssetMissing."""
        path = (self._folder / relative).resolve()
        if not path.is_relative_to(self._root):
            raise PathEscapes(relative)
        if not path.is_file() and not (folders and path.is_dir()):
            raise AssetMissing(relative, "no such file below the manifests folder")
        return path

    def found(self, address: str) -> Brought:
        """Return what was brought from an address. Raises AssetMissing."""
        if address not in self.brought:
            raise AssetMissing(address, "was not brought here")
        return self.brought[address]

    def read(self, relative: str, checksum: str) -> bytes:
        """Return a file's bytes, once they are what its checksum says.

        Raises PathEscapes, AssetMissing, AssetUnchecked, ChecksumMismatch.
        """
        if not checksum:
            raise AssetUnchecked(relative)
        body = _bytes_of(self.locate(relative), relative)
        self.checksums[relative] = _checked(relative, body, checksum)
        return body


class ModelFiles:
    """The files of one model by the names its manifest gives them.

    `brought` is by address; what is brought gets its own name in `scratch`, for frameworks go by
    endings and look for further files beside a graph.
    """

    def __init__(
        self,
        folder: AssetFolder,
        model: ModelManifest,
        brought: Mapping[str, Brought] = NOTHING,
        scratch: Path = Path(),
    ) -> None:
        self._folder = folder
        self._assets = model.model
        self._brought = brought
        self._scratch = scratch / "assets"
        #: what a reader of results should know of the files
        self.notes: list[str] = []

    @property
    def checksums(self) -> dict[str, str]:
        """Return what was used so far: path or address to `sha256:…`."""
        return self._folder.checksums

    def graph(self) -> tuple[Path, bytes]:
        """Return the model file's path and checked bytes; none of a folder. Raises AssetError.

        Of a model that names none (a server has it, or a predictor of one's own) both are empty.
        """
        if not self._assets.graph_path and not self._assets.archive:
            return Path(), b""
        path = self._located(self._assets.graph_path, self._assets.checksum)
        return path, b"" if path.is_dir() else _bytes_of(path, self._assets.graph_path)

    def weights(self) -> Path | None:
        """Return the checked weights file, or None when the graph holds them or they are `random`.

        Raises AssetError.
        """
        assets = self._assets
        if assets.weights == "random":
            self.notes.append(f"the weights are random (seed {assets.seed}): no accuracy to be had")
            return None
        if not assets.weights_path:
            return None
        return self._located(assets.weights_path, assets.weights_checksum)

    def further(self) -> dict[str, bytes]:
        """Return the model's further files, checked, by the manifest's names. Raises AssetError."""
        assets = self._assets.assets
        return {name: _bytes_of(self._located(name, assets[name]), name) for name in assets}

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the lines of a label file. Raises AssetError."""
        path = self._located(name, self._assets.assets.get(name, ""))
        return tuple(_bytes_of(path, name).decode("utf-8", errors="replace").splitlines())

    def _located(self, name: str, checksum: str) -> Path:
        if self._assets.archive:
            return self._in_archive(name, checksum)
        source = source_of(self._assets, name)
        if isinstance(source, FileSource):
            self._note(name, source, checksum)
            self._folder.read(source.path, checksum)
            return self._folder.locate(source.path)
        found = self._found(source)
        self._folder.checksums[source.address] = f"sha256:{found.sha256}"
        self._note(name, source, checksum)
        return _named(found.path, self._scratch, name, source)

    def _in_archive(self, name: str, checksum: str) -> Path:
        source = source_of(self._assets, self._assets.archive)
        tree = self._found(source)
        self._folder.checksums[source.address] = f"sha256:{tree.sha256}"
        root = tree.path.resolve()
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise PathEscapes(name)
        if not path.exists():
            raise AssetMissing(name, f"{source.address} holds no such file")
        if checksum and path.is_file():
            self._folder.checksums[name] = _checked(name, _bytes_of(path, name), checksum)
        return path

    def _found(self, source: Source) -> Brought:
        if source.address not in self._brought:
            raise AssetMissing(source.address, "was not brought here")
        return self._brought[source.address]

    def _note(self, name: str, source: Source, checksum: str) -> None:
        """Remark how little is known of a file that was fetched."""
        wanted = checksum_of(checksum)
        if wanted is not None and wanted.is_prefix:
            digits = len(wanted.digest)
            self.notes.append(f"{name}: only the first {digits} digits of its sha256 are known")
        elif wanted is None and isinstance(source, HttpSource | HubSource):
            self.notes.append(
                f"{name}: the manifest gives no checksum; see what came in `checksums`"
            )


def source_of(assets: Assets, name: str) -> Source:
    """Return where a model's file is. Raises AssetUnusable."""
    try:
        return parse(address_of(assets, name))
    except BadAddress as error:
        raise AssetUnusable(str(error)) from error


def checksum_of(text: str) -> Checksum | None:
    """Return a manifest's checksum; a malformed one is a sha256 nothing has."""
    try:
        return parse_checksum(text)
    except BadChecksum:
        return Checksum("sha256", text.strip().lower().removeprefix("sha256:"))


def checked_digest(path: Path, name: str, checksum: str, checksums: dict[str, str]) -> None:
    """Note a file's sha256 under its name, once it fits; the file is read in blocks.

    Raises AssetMissing, AssetUnchecked, ChecksumMismatch.
    """
    if not checksum:
        raise AssetUnchecked(name)
    wanted = checksum_of(checksum)
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            is_md5 = wanted is not None and wanted.algorithm == "md5"
            found = hashlib.file_digest(file, _md5).hexdigest() if is_md5 else sha256
    except OSError as error:
        raise AssetMissing(name, error.strerror or str(error)) from error
    _require(name, found, wanted)
    checksums[name] = f"sha256:{sha256}"


def _md5() -> "hashlib._Hash":
    return hashlib.md5(usedforsecurity=False)


def _require(name: str, found: str, wanted: Checksum | None) -> None:
    """Raise ChecksumMismatch unless a digest is the one wanted."""
    if wanted is not None:
        compared = found[: len(wanted.digest)] if wanted.is_prefix else found
        if compared != wanted.digest:
            raise ChecksumMismatch(name, wanted.digest, found, wanted.algorithm)


def _checked(name: str, body: bytes, checksum: str) -> str:
    """Return `sha256:…` of some bytes, once they fit. Raises ChecksumMismatch."""
    wanted = checksum_of(checksum)
    sha256 = hashlib.sha256(body).hexdigest()
    if wanted is not None:
        is_md5 = wanted.algorithm == "md5"
        _require(
            name, hashlib.md5(body, usedforsecurity=False).hexdigest() if is_md5 else sha256, wanted
        )
    return f"sha256:{sha256}"


def _bytes_of(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise AssetMissing(name, error.strerror or str(error)) from error


def _named(path: Path, scratch: Path, name: str, source: Source) -> Path:
    """Return a file of the cache under its own name. Raises AssetMissing.

    What lay side by side does so here, so that a graph finds the rest of it: names relative to
    the base URL keep their places, files with addresses of their own share a folder where those
    did.
    """
    relative = PurePosixPath(name)
    is_address = name == source.address or name.startswith("file:")
    if is_address or relative.is_absolute() or ".." in relative.parts:
        place, own_name = _origin(source)
        digest = hashlib.sha256(place.encode()).hexdigest()
        relative = PurePosixPath(digest[:_PLACE_DIGITS], own_name)
    target = scratch / relative
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # over the bounds of a filesystem
            os.link(path, target)
            return target
        target.symlink_to(path)
    except OSError as error:
        raise AssetMissing(name, error.strerror or str(error)) from error
    return target


def _origin(source: Source) -> tuple[str, str]:
    """Return the folder a file comes from, and its name there; frameworks go by its ending."""
    place, query = "", ""
    match source:
        case ArtifactSource():
            path = source.name
        case HttpSource():
            parts = urlsplit(source.url)
            path, place, query = unquote(parts.path), parts.netloc, parts.query
        case PackageSource():
            path = source.path or f"{source.package}-{source.version}.whl"
            place = source.requirement
        case HubSource():
            path, place = source.path, f"{source.repository}@{source.revision}"
        case FileSource():
            path = source.path
    whole = PurePosixPath(path)
    return f"{type(source).__name__} {place} {whole.parent} {query}", whole.name or "file"


_PLACE_DIGITS = 16
"""Of the sha256 of where a file comes from."""
