"""Errors of the registry."""

from schemas.request import Refused


class RegistryError(Exception):
    """The registry can't use its input."""


class ManifestRefused(RegistryError):
    """A manifest can't be added to or removed from the catalog; `refused` is the answer."""

    def __init__(self, refused: Refused) -> None:
        """Give the answer to the command."""
        self.refused = refused
        super().__init__(f"{refused.error}: {refused.message}")
