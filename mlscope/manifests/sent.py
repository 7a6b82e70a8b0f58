"""A model's manifest whose files were sent: it names the addresses where agents find them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlscope.assets.addresses import joined

Manifest = dict[str, Any]

_CHECKSUMS = {"graph_path": "checksum", "weights_path": "weights_checksum"}


@dataclass(frozen=True, slots=True)
class SentFile:
    """Where a file is, and its checksum as `sha256:…`."""

    address: str
    sha256: str


@dataclass(slots=True)
class Placed:
    """A manifest with addresses; `unused` files are those that it does not name.

    `lacking` are its names of files that were neither sent nor are on the web.
    """

    manifest: Manifest
    unused: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)


def with_sent_files(manifest: Mapping[str, Any], files: Mapping[str, SentFile]) -> Placed:
    """Return a model's `manifest` with the addresses of the `files` that it names.

    A file is named by the path that the manifest has, or by the last part of it, as a browser only
    tells that. A checksum that the manifest has stays.
    """
    placed = Placed(dict(manifest), unused=list(files))
    if manifest.get("model"):
        placed.manifest["model"] = _at_addresses(manifest["model"], files, placed)
    if manifest.get("frameworks"):
        placed.manifest["frameworks"] = [
            {**variant, "model": _at_addresses(variant["model"], files, placed)}
            if variant.get("model")
            else variant
            for variant in manifest["frameworks"]
        ]
    return placed


def _at_addresses(
    assets: Mapping[str, Any], files: Mapping[str, SentFile], placed: Placed
) -> Manifest:
    """Return the assets of one variant with addresses, and note in `placed` what is left over."""
    addresses, further = dict(assets.get("addresses", {})), dict(assets.get("assets", {}))
    archive = assets.get("archive", "")
    names = [archive] if archive else [*filter(None, map(assets.get, _CHECKSUMS)), *further]
    named = {name: files.get(name) or files.get(name.rpartition("/")[2]) for name in names}
    sent = {name: file for name, file in named.items() if file is not None}
    placed.unused = [name for name in placed.unused if files[name] not in sent.values()]
    placed.lacking += [
        name
        for name in names
        if name not in (*sent, *addresses) and "://" not in joined(assets.get("base_url", ""), name)
    ]
    if archive in sent:
        checksum = assets.get("archive_checksum") or sent[archive].sha256
        return {**assets, "archive": sent[archive].address, "archive_checksum": checksum}
    checksums = {
        checksum_key: assets.get(checksum_key) or sent[assets[key]].sha256
        for key, checksum_key in _CHECKSUMS.items()
        if assets.get(key) in sent
    }
    further = {
        name: text or (sent[name].sha256 if name in sent else "") for name, text in further.items()
    }
    addresses |= {name: file.address for name, file in sent.items()}
    parts = {"addresses": addresses, "assets": further}
    return {**assets, **checksums, **{name: part for name, part in parts.items() if part}}
