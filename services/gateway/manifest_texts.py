"""Manifests that a person types into a page, as fields of a request."""

from collections.abc import Mapping
from typing import Any

import yaml

from mlscope.manifests.errors import ManifestFaulty
from mlscope.manifests.reading import read_manifest_text
from mlscope.manifests.splicing import differences, spliced
from services.gateway.pages.starting.request_form import yaml_of


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


def placed_in(text: str, kind: str, placed: Mapping[str, Any]) -> str:
    """Return the YAML `text` of a manifest of this `kind` with the values that `placed` has.

    Its comments and layout stay, where that gives the same manifest; else it is written anew.
    """

    def fields_of(written: str) -> dict[str, Any]:
        manifest = read_manifest_text(written, "line", kind)
        return manifest.model_dump(mode="json", exclude_unset=True)

    try:
        text_with_files = spliced(text, differences(fields_of(text), placed))
        if fields_of(text_with_files) == placed:
            return text_with_files
    except (LookupError, yaml.YAMLError, ManifestFaulty):
        pass
    return yaml_of(placed)
