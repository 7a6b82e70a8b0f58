"""Reads the manifests that are shipped: YAML files below a folder (I/O)."""

from collections.abc import Iterator
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from schemas.manifest import Manifest
from services.registry.errors import UnreadableManifest

KINDS = {
    "models": "model",
    "frameworks": "framework",
    "datasets": "dataset",
    "scenarios": "scenario",
}
_MOST_BYTES = 1 << 20

_MANIFEST: TypeAdapter[Manifest] = TypeAdapter(Manifest)


def read_manifests(folder: Path) -> Iterator[Manifest | UnreadableManifest]:
    """Yield each manifest of `folder/{models,frameworks,datasets,scenarios}/*.yml`, in order.

    What can't be read comes as the error that says why; the others are read all the same.
    """
    for part, kind in KINDS.items():
        for path in sorted((folder / part).glob("*.y*ml")):
            try:
                yield read_manifest(path, kind)
            except UnreadableManifest as unreadable:
                yield unreadable


def read_manifest(path: Path, kind: str = "") -> Manifest:
    """Return the manifest in a file; `kind` is used where the file says none.

    Raises UnreadableManifest.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UnreadableManifest(path.name, f"larger than {_MOST_BYTES} bytes")
        value = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UnreadableManifest(path.name, " ".join(str(error).split())) from error
    if not isinstance(value, dict):
        raise UnreadableManifest(path.name, f"a map is expected, found {type(value).__name__}")
    return parse_manifest({"kind": kind, **value} if kind else value, path.name)


def parse_manifest(value: dict[str, object], name: str) -> Manifest:
    """Return a manifest from a map. Raises UnreadableManifest that names the field."""
    try:
        return _MANIFEST.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise UnreadableManifest(name, f"{field}: {first['msg']}") from error
