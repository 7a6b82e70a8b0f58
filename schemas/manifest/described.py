"""What most manifests begin with: their kind, name, version and description."""

from schemas.message import Message


class DescribedManifest(Message):
    """The first fields of a manifest; each kind narrows `kind` to its own name."""

    kind: str
    name: str
    version: str = "1.0.0"
    description: str = ""
