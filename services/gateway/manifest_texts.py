"""Manifests that a person types into a page, as fields of a request."""

from typing import Any

from mlscope.manifests.errors import ManifestFaulty
from mlscope.manifests.reading import read_manifest_text


def manifest_fields(text: str, kind: str) -> dict[str, Any]:
    """Return the manifest in a YAML `text`, of this `kind`.

    Raises ValueError with all faults, a line each.
    """
    try:
        manifest = read_manifest_text(text, "line", kind)
    except ManifestFaulty as error:
        raise ValueError("\n".join(fault.text("line") for fault in error.faults)) from None
    if manifest.kind != kind:
        raise ValueError(f"kind: found {manifest.kind}, allowed: {kind}")
    return manifest.model_dump(mode="json", exclude_unset=True)
