"""Manifest files that the arguments name."""

from pathlib import Path
from typing import Any

import yaml

from cli.failures import Misused
from mlscope.manifests.checking import faults_in
from mlscope.manifests.errors import ManifestFaulty
from mlscope.manifests.folders import read_manifest
from mlscope.manifests.reading import Check
from schemas.manifest import Manifest

_SUFFIXES = (".yml", ".yaml", ".json")


def checked_manifest(path: Path, kind: str = "model", further: tuple[Check, ...] = ()) -> Manifest:
    """Return the manifest in the file `path`; `kind` is its kind if it names none.

    `further` are checks beside those of the text. Raises Misused with all faults.
    """
    from services.agent.steps.checking import value_faults

    try:
        return read_manifest(path, kind, (faults_in, value_faults, *further))
    except ManifestFaulty as error:
        raise Misused(str(error)) from None


def name_or_manifest(text: str, kind: str = "model") -> str | dict[str, Any]:
    """Return the manifest of a kind in the file `text`, or `text` itself if it names no file.

    Raises Misused, with every error in the file and its line.
    """
    if not text.endswith(_SUFFIXES):
        return text
    path = Path(text)
    try:
        manifest = read_manifest(path, kind)
    except ManifestFaulty as error:
        raise Misused("\n".join(fault.text(text) for fault in error.faults)) from None
    if manifest.kind != kind:
        raise Misused(f"{text}: kind: found {manifest.kind}, allowed: {kind}")
    return manifest.model_dump(mode="json", exclude_unset=True)


def read_map(path: Path) -> dict[str, Any]:
    """Return the map in a YAML or JSON file. Raises Misused."""
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise Misused(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Misused(f"{path}: neither YAML nor JSON: {error}") from None
    if not isinstance(content, dict):
        raise Misused(f"{path}: the file must hold a map, found {type(content).__name__}")
    return content
