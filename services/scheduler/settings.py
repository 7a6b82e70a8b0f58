"""What a scheduler needs to know of the settings."""

from typing import Protocol


class SchedulerSettings(Protocol):
    """What a scheduler needs to know."""

    @property
    def nats_url(self) -> str:
        """Where the server is, for the connections of load issuers."""
        ...

    @property
    def gateway_address(self) -> str:
        """Where people reach the gateway."""
        ...

    @property
    def heartbeat_s(self) -> float:
        """Seconds between renewals of a lease."""
        ...

    @property
    def lease_ttl_s(self) -> float:
        """Seconds after which a lease nobody renewed runs out."""
        ...

    @property
    def run_silence_s(self) -> float:
        """Seconds after which a query without answer is lost."""
        ...

    @property
    def batch_deadline_s(self) -> float:
        """Seconds the collector waits for missing batches."""
        ...

    @property
    def max_open_evaluations(self) -> int:
        """How many evaluations may be open before requests are refused as busy."""
        ...

    @property
    def max_listed_evaluations(self) -> int:
        """How many ended evaluations are kept for lists."""
        ...

    def nats_seed(self) -> str | None:
        """Read the nkey seed, for the connections of load issuers."""
        ...
