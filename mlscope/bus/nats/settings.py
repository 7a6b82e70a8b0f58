"""What the bus asks of the settings; `mlscope.settings.Settings` has it."""

from typing import Protocol


class NatsSettings(Protocol):
    """What a connection needs to know of the settings."""

    @property
    def nats_url(self) -> str:
        """Where the server is; several of one cluster, comma separated."""
        ...

    @property
    def max_pending_requests(self) -> int:
        """Commands that may wait for their answer before the next is refused as busy."""
        ...

    def nats_seed(self) -> str | None:
        """Read the nkey seed of this connection; None where users have no keys."""
        ...
