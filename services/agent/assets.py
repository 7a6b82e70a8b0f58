"""Files of models and datasets: found below the manifests folder, used when their checksum fits."""

import hashlib
from pathlib import Path
from typing import Literal

from schemas.manifest import Assets, ModelManifest
from services.agent.errors import (
    AssetMissing,
    AssetUnchecked,
    ChecksumMismatch,
    PathEscapes,
)

_SCHEME = "file:"


class AssetFolder:
    """The manifests folder of this agent; keeps what it checked as `checksums`, by path.

    A manifest of a kind lies in the folder of its kind, and its files beside it.
    """

    def __init__(self, manifests_folder: Path, kind: Literal["models", "datasets"]) -> None:
        self._root = manifests_folder.resolve()
        self._folder = self._root / kind
        self.checksums: dict[str, str] = {}

    def locate(self, relative: str) -> Path:
        """Return where a manifest's path leads. Raises PathEscapes, AssetMissing."""
        path = (self._folder / relative).resolve()
        if not path.is_relative_to(self._root):
            raise PathEscapes(relative)
        if not path.is_file():
            raise AssetMissing(relative, "no such file below the manifests folder")
        return path

    def read(self, relative: str, checksum: str) -> bytes:
        """Return a file's bytes, once they are what `checksum` (`sha256:` or plain hex) says.

        Raises PathEscapes, AssetMissing, AssetUnchecked, ChecksumMismatch.
        """
        expected = checksum.removeprefix("sha256:").lower()
        if not expected:
            raise AssetUnchecked(relative)
        try:
            body = self.locate(relative).read_bytes()
        except OSError as error:
            raise AssetMissing(relative, error.strerror or str(error)) from error
        found = hashlib.sha256(body).hexdigest()
        if found != expected:
            raise ChecksumMismatch(relative, expected, found)
        self.checksums[relative] = f"sha256:{found}"
        return body


class ModelFiles:
    """The files of one model by the names its manifest gives them."""

    def __init__(self, folder: AssetFolder, model: ModelManifest) -> None:
        self._folder = folder
        self._assets = model.model
        self._base = _base_folder(model.model)

    @property
    def checksums(self) -> dict[str, str]:
        """Return what was used so far: path below the folder to `sha256:…`."""
        return self._folder.checksums

    def graph(self) -> tuple[Path, bytes]:
        """Return the model file's path and checked bytes. Raises AssetError."""
        path = self._base + self._assets.graph_path
        return self._folder.locate(path), self._folder.read(path, self._assets.checksum)

    def weights(self) -> Path | None:
        """Return the checked weights file, or None when the graph holds them."""
        if not self._assets.weights_path:
            return None
        path = self._base + self._assets.weights_path
        self._folder.read(path, self._assets.weights_checksum)
        return self._folder.locate(path)

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the lines of a label file. Raises AssetError."""
        body = self._folder.read(
            self._base + name.removeprefix(_SCHEME), self._assets.assets.get(name, "")
        )
        return tuple(body.decode("utf-8", errors="replace").splitlines())


def _base_folder(assets: Assets) -> str:
    """Return the folder `base_url` names, with its slash; only `file:` is served here."""
    if assets.base_url and not assets.base_url.startswith(_SCHEME):
        raise AssetMissing(assets.base_url, "only file: addresses can be read")
    base = assets.base_url.removeprefix(_SCHEME)
    return base if not base or base.endswith("/") else f"{base}/"
