"""What can be wrong with what the registry is given."""

from schemas.request import Refused


class RegistryError(Exception):
    """The registry can't use what it was given."""


class ManifestRefused(RegistryError):
    """A manifest can't enter or leave the catalog; `refused` is the answer to whoever asked."""

    def __init__(self, refused: Refused) -> None:
        """Carry the answer."""
        self.refused = refused
        super().__init__(f"{refused.error}: {refused.message}")
