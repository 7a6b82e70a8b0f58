"""Errors of the registry."""

from schemas.request import Refused


class RegistryError(Exception):
    """The registry can't use its input."""


class AnnouncementTooLarge(RegistryError):
    """An agent says too much of itself: one such entry would keep the whole catalog from others."""

    def __init__(self, agent: str, size_bytes: int, most_bytes: int) -> None:
        """Give the `agent`, the `size_bytes` of its announcement, and the `most_bytes`."""
        self.agent, self.size_bytes, self.most_bytes = agent, size_bytes, most_bytes
        super().__init__(f"{agent} announced {size_bytes} bytes, allowed: up to {most_bytes}")


class ManifestRefused(RegistryError):
    """A manifest can't be added to or removed from the catalog; `refused` is the answer."""

    def __init__(self, refused: Refused) -> None:
        """Give the answer to the command."""
        self.refused = refused
        super().__init__(f"{refused.error}: {refused.message}")
