"""The files beside the manifest of a user's model, sent to the agents.

Files keep the names that the manifest gives them, because its steps and code use those names.
"""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from cli.failures import Misused
from cli.inputs.datasets import file_beside, is_in_place
from cli.inputs.uploads import digest_of, files_stay, members_of, put_archive, put_file
from mlscope.assets.addresses import joined
from mlscope.client.errors import NoCluster
from mlscope.settings import Settings

Manifest = dict[str, Any]

_CHECKSUMS = {"graph_path": "checksum", "weights_path": "weights_checksum"}


def with_files(manifest: Manifest, file: Path, arguments: argparse.Namespace) -> Manifest:
    """Return the model `manifest` of `file`, after sending the files that lie beside it.

    Names that lead to no file here stay as they are: they name files below the agent's manifests,
    as in shipped manifests. `arguments` name the cluster. Raises Misused, ClientError.
    """
    if is_in_place(file, (str(Settings.read(os.environ).manifests_folder),)):
        return manifest
    files = ModelFileSender(file, arguments)
    changed = dict(manifest)
    try:
        if manifest.get("model"):
            changed["model"] = files.send(manifest["model"], "model")
        if manifest.get("frameworks"):
            changed["frameworks"] = [
                {**variant, "model": files.send(variant["model"], f"frameworks.{number}.model")}
                if variant.get("model")
                else variant
                for number, variant in enumerate(manifest["frameworks"])
            ]
    except NoCluster:
        return manifest
    return changed


class ModelFileSender:
    """Sends the files of one manifest; a plan's files are only given their checksums."""

    def __init__(self, file: Path, arguments: argparse.Namespace) -> None:
        """Take the manifest's file and the arguments that name the cluster."""
        self._file, self._arguments = file, arguments

    def send(self, assets: Mapping[str, Any], field: str) -> Manifest:
        """Send the files of one variant and return its assets with the new addresses.

        `assets`: the variant's `model` map; `field`: its place in the manifest, for errors.
        Raises Misused, ClientError.
        """
        if archive := assets.get("archive"):
            path = self._local_path(assets, archive, f"{field}.archive")
            if path is None:
                return dict(assets)
            address, sha256 = self._put(archive, path)
            checksum = assets.get("archive_checksum") or sha256
            return {**assets, "archive": address, "archive_checksum": checksum}
        fields = {assets.get(key): f"{field}.{key}" for key in _CHECKSUMS}
        names = [assets[key] for key in _CHECKSUMS if assets.get(key)]
        names += list(assets.get("assets", ()))
        local_paths = {
            name: self._local_path(assets, name, fields.get(name, f"{field}.assets.{name}"))
            for name in names
            if name not in assets.get("addresses", ())
        }
        files = {name: path for name, path in local_paths.items() if path}
        if not files:
            return dict(assets)
        is_complete = set(files) == set(names) and all(map(_may_be_member, names))
        if is_complete and not files_stay(self._arguments):
            return self._send_together(assets, files)
        return self._send_separately(assets, files, field)

    def _local_path(self, assets: Mapping[str, Any], name: str, field: str) -> Path | None:
        return file_beside(joined(assets.get("base_url", ""), name), self._file, field)

    def _send_together(self, assets: Mapping[str, Any], files: Mapping[str, Path]) -> Manifest:
        """Send all files in one archive, under the names that they have in the manifest."""
        members: dict[str, Path] = {}
        for name, path in files.items():
            members |= {str(PurePosixPath(name, member)): file for member, file in members_of(path)}
        address, sha256 = put_archive(self._arguments, "models", members)
        unchanged = {name: value for name, value in assets.items() if name != "base_url"}
        return {**unchanged, "archive": address, "archive_checksum": sha256}

    def _send_separately(
        self, assets: Mapping[str, Any], files: Mapping[str, Path], field: str
    ) -> Manifest:
        """Send each file on its own, because other files of the model are elsewhere."""
        addresses, checksums = dict(assets.get("addresses", {})), {}
        for name, path in files.items():
            if path.is_dir():
                advice = "is a folder: name an archive of the model's files (`archive: FILE.tar`)"
                raise Misused(f"{self._file}: {field}: {name} {advice}")
            address, checksums[name] = self._put(name, path)
            if address != name:
                addresses[name] = address
        changed = {**assets, "addresses": addresses} if addresses else dict(assets)
        for key, checksum_key in _CHECKSUMS.items():
            if (name := assets.get(key, "")) in checksums:
                changed[checksum_key] = assets.get(checksum_key) or checksums[name]
        if further := assets.get("assets"):
            changed["assets"] = {
                name: checksum or checksums.get(name, "") for name, checksum in further.items()
            }
        return changed

    def _put(self, name: str, path: Path) -> tuple[str, str]:
        """Return the address of a file for agents, and its checksum."""
        if files_stay(self._arguments):
            return name, f"sha256:{digest_of(path)}"
        return put_file(self._arguments, "models", path)


def _may_be_member(name: str) -> bool:
    """Tell whether an archive may have a member of this name."""
    path = PurePosixPath(name)
    return ":" not in name and not path.is_absolute() and ".." not in path.parts
