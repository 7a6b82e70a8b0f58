"""A model of one's own: the files beside its manifest, put where agents find them."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from cli.datasets import beside, is_in_place
from cli.failures import Misused
from cli.uploading import members_of, put_archive, put_file
from mlscope.assets.addresses import joined
from mlscope.client.errors import NoCluster
from mlscope.settings import Settings

Manifest = dict[str, Any]

_CHECKSUMS = {"graph_path": "checksum", "weights_path": "weights_checksum"}


def with_files(manifest: Manifest, file: Path, arguments: argparse.Namespace) -> Manifest:
    """Return a model's manifest with the files that lie beside it sent along.

    What is not there is left as it says: then it is below the agent's manifests, as are the files
    of shipped manifests. Raises Misused, ClientError.
    """
    if is_in_place(file, (str(Settings.read(os.environ).manifests_folder),)):
        return manifest
    sent = Sending(file, arguments)
    try:
        if manifest.get("model"):
            manifest = {**manifest, "model": sent.assets(manifest["model"])}
        if manifest.get("frameworks"):
            variants = [
                {**each, "model": sent.assets(each["model"])} if each.get("model") else each
                for each in manifest["frameworks"]
            ]
            manifest = {**manifest, "frameworks": variants}
    except NoCluster:
        # A plan for a machine without broker: the manifests folder there has them.
        return manifest
    return {
        name: _renamed(value, sent.renamed) if name in ("inputs", "outputs") else value
        for name, value in manifest.items()
    }


class Sending:
    """Puts up the files of one manifest; `renamed` are further files by what they were called."""

    def __init__(self, file: Path, arguments: argparse.Namespace) -> None:
        self._file, self._arguments = file, arguments
        self.renamed: dict[str, str] = {}

    def assets(self, assets: Mapping[str, Any]) -> Manifest:
        """Return the files of one variant as agents find them. Raises Misused, ClientError."""
        if assets.get("archive"):
            return self._archived(assets)
        named = [assets[each] for each in _CHECKSUMS if assets.get(each)]
        named += list(assets.get("assets", ()))
        found = {name: path for name in named if (path := self._local(assets, name)) is not None}
        if not found:
            return dict(assets)
        if set(found) == set(named) and all(map(_is_plain, named)):
            return self._together(assets, found)
        return self._each(assets, found)

    def _local(self, assets: Mapping[str, Any], name: str) -> Path | None:
        return beside(joined(assets.get("base_url", ""), name), self._file)

    def _archived(self, assets: Mapping[str, Any]) -> Manifest:
        found = self._local(assets, assets["archive"])
        if found is None:
            return dict(assets)
        address, sha256 = put_file(self._arguments, "models", found)
        checksum = assets.get("archive_checksum") or sha256
        return {**assets, "archive": address, "archive_checksum": checksum}

    def _together(self, assets: Mapping[str, Any], found: Mapping[str, Path]) -> Manifest:
        """Send all files as one archive, in which they lie as they do here."""
        members: dict[str, Path] = {}
        for name, path in found.items():
            members |= {str(PurePosixPath(name, below)): at for below, at in members_of(path)}
        address, sha256 = put_archive(self._arguments, "models", members)
        rest = {name: value for name, value in assets.items() if name != "base_url"}
        return {**rest, "archive": address, "archive_checksum": sha256}

    def _each(self, assets: Mapping[str, Any], found: Mapping[str, Path]) -> Manifest:
        """Send files one by one, for others of the model are elsewhere."""
        changed = dict(assets)
        for name, path in found.items():
            if path.is_dir():
                raise Misused(f"{self._file}: model: {name} is a folder, others are no files here")
        for field, checksum in _CHECKSUMS.items():
            if (name := assets.get(field, "")) in found:
                changed[field], sha256 = put_file(self._arguments, "models", found[name])
                changed[checksum] = assets.get(checksum) or sha256
        further = {}
        for name, checksum in assets.get("assets", {}).items():
            address, sha256 = name, checksum
            if name in found:
                address, sha256 = put_file(self._arguments, "models", found[name])
                self.renamed[name] = address
            further[address] = checksum or sha256
        return {**changed, "assets": further} if further else changed


def _is_plain(name: str) -> bool:
    """Say whether a name may be one of a member of an archive."""
    path = PurePosixPath(name)
    return ":" not in name and not path.is_absolute() and ".." not in path.parts


def _renamed(value: Any, renamed: Mapping[str, str]) -> Any:
    """Return steps that name files by what they are called now."""
    if isinstance(value, Mapping):
        return {name: _renamed(each, renamed) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(each, renamed) for each in value]
    return renamed.get(value, value) if isinstance(value, str) else value
