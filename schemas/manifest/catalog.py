"""Manifests of every kind in the catalog, and the facts that add and remove them."""

from typing import Annotated

from pydantic import Field

from schemas.manifest.dataset import DatasetManifest
from schemas.manifest.machine import (
    FrameworkManifest,
    HardwareManifest,
    ScenarioManifest,
    SoftwareManifest,
)
from schemas.manifest.model import ModelManifest
from schemas.message import Fact

Manifest = Annotated[
    ModelManifest
    | FrameworkManifest
    | DatasetManifest
    | ScenarioManifest
    | HardwareManifest
    | SoftwareManifest,
    Field(discriminator="kind"),
]


class ManifestPublished(Fact):
    """A manifest was added to the catalog. Published by the registry.

    `published_by` is the person who asked, '' for the cluster's user and for a shipped manifest.
    """

    entity = "manifest"
    happened = "published"
    manifest: Manifest
    digest: str
    published_by: str = ""


class ManifestWithdrawn(Fact):
    """A manifest was removed from the catalog; current runs keep it. Published by the registry.

    `withdrawn_by` is the person who asked, '' for the cluster's user.
    """

    entity = "manifest"
    happened = "withdrawn"
    kind: str
    name: str
    version: str
    withdrawn_by: str = ""
