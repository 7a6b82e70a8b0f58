"""Commands that change which manifests the catalog has, and their answer."""

from typing import Literal

from schemas.manifest import Manifest
from schemas.message import Command, Message
from schemas.values.texts import ShortText


class PublishManifest(Command):
    """Add a manifest to the catalog. Adding it again changes nothing."""

    verb = "publish"
    manifest: Manifest


class WithdrawManifest(Command):
    """Remove a manifest from the catalog."""

    verb = "withdraw"
    kind: Literal["model", "framework", "dataset", "scenario", "hardware", "software"]
    name: ShortText
    version: ShortText


class CatalogChanged(Message):
    """Answer to `publish` and `withdraw`; `repeated`: nothing changed."""

    accepted: Literal[True] = True
    kind: str
    name: str
    version: str
    digest: str = ""
    repeated: bool = False
