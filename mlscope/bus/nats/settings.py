"""The settings a NATS connection needs; `mlscope.settings.Settings` implements them."""

from pathlib import Path
from typing import Protocol


class NatsSettings(Protocol):
    """The settings of a connection."""

    @property
    def nats_url(self) -> str:
        """The server's URL; for a cluster, several, separated by commas."""
        ...

    @property
    def tls_authority_file(self) -> Path | None:
        """The authority that signs the server's certificate; None: those this machine trusts."""
        ...

    @property
    def broker_uid(self) -> int | None:
        """The user as whom a broker on this machine's loopback runs; None: anybody may."""
        ...

    @property
    def max_pending_requests(self) -> int:
        """The number of commands that may wait before further ones are refused as busy."""
        ...

    def nats_seed(self) -> str | None:
        """Read the nkey seed of this connection; None if the server uses no keys."""
        ...
