"""A model of one's own: the files beside its manifest, put where agents find them.

Files keep the names that the manifest gives them, for its steps and code name them so.
"""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from cli.datasets import beside, is_in_place
from cli.failures import Misused
from cli.uploading import digest_of, members_of, put_archive, put_file, stay
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
    changed = dict(manifest)
    try:
        if manifest.get("model"):
            changed["model"] = sent.assets(manifest["model"], "model")
        if manifest.get("frameworks"):
            changed["frameworks"] = [
                {**each, "model": sent.assets(each["model"], f"frameworks.{number}.model")}
                if each.get("model")
                else each
                for number, each in enumerate(manifest["frameworks"])
            ]
    except NoCluster:
        return manifest
    return changed


class Sending:
    """Puts up the files of one manifest, or only says what they are where they stay."""

    def __init__(self, file: Path, arguments: argparse.Namespace) -> None:
        self._file, self._arguments = file, arguments

    def assets(self, assets: Mapping[str, Any], field: str) -> Manifest:
        """Return the files of one variant as agents find them; `field` is where it is.

        Raises Misused, ClientError.
        """
        if assets.get("archive"):
            return self._archived(assets, field)
        named = [assets[each] for each in _CHECKSUMS if assets.get(each)]
        named += list(assets.get("assets", ()))
        places = {assets.get(each): f"{field}.{each}" for each in _CHECKSUMS}
        found = {
            name: path
            for name in named
            if name not in assets.get("addresses", ())
            and (path := self._local(assets, name, places.get(name, f"{field}.assets.{name}")))
        }
        if not found:
            return dict(assets)
        is_whole = set(found) == set(named) and all(map(_is_plain, named))
        if is_whole and not stay(self._arguments):
            return self._together(assets, found)
        return self._each(assets, found, field)

    def _local(self, assets: Mapping[str, Any], name: str, field: str) -> Path | None:
        return beside(joined(assets.get("base_url", ""), name), self._file, field)

    def _archived(self, assets: Mapping[str, Any], field: str) -> Manifest:
        found = self._local(assets, assets["archive"], f"{field}.archive")
        if found is None:
            return dict(assets)
        address, sha256 = self._put(assets["archive"], found)
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

    def _each(self, assets: Mapping[str, Any], found: Mapping[str, Path], field: str) -> Manifest:
        """Send files one by one, for others of the model are elsewhere."""
        addresses, sums = dict(assets.get("addresses", {})), {}
        for name, path in found.items():
            if path.is_dir():
                advice = "is a folder: name an archive of the model's files (`archive: FILE.tar`)"
                raise Misused(f"{self._file}: {field}: {name} {advice}")
            address, sums[name] = self._put(name, path)
            if address != name:
                addresses[name] = address
        changed = {**assets, "addresses": addresses} if addresses else dict(assets)
        for each, checksum in _CHECKSUMS.items():
            if (named := assets.get(each, "")) in sums:
                changed[checksum] = assets.get(checksum) or sums[named]
        if further := assets.get("assets"):
            changed["assets"] = {
                name: checksum or sums.get(name, "") for name, checksum in further.items()
            }
        return changed

    def _put(self, name: str, path: Path) -> tuple[str, str]:
        """Return where agents find a file, and its checksum."""
        if stay(self._arguments):
            return name, f"sha256:{digest_of(path)}"
        return put_file(self._arguments, "models", path)


def _is_plain(name: str) -> bool:
    """Say whether a name may be one of a member of an archive."""
    path = PurePosixPath(name)
    return ":" not in name and not path.is_absolute() and ".." not in path.parts
