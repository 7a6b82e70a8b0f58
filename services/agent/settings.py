"""What an agent needs to know; `mlscope.settings.Settings` has it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from mlscope.assets.opening import AssetSettings
from services.agent.allowances import AllowanceSettings


class AgentSettings(AssetSettings, AllowanceSettings, Protocol):
    """What an agent is called and offers, and the bounds it works within."""

    @property
    def agent_id(self) -> str:
        """The agent's name, unique in a fleet."""
        ...

    @property
    def may_number_agent(self) -> bool:
        """Whether the agent may add a number to its name where that is taken."""
        ...

    @property
    def agent_labels(self) -> Mapping[str, str]:
        """What requests may match on."""
        ...

    @property
    def agent_image(self) -> str:
        """The container image it runs in."""
        ...

    @property
    def agent_predictors(self) -> tuple[str, ...]:
        """Frameworks to offer; none named: all."""
        ...

    @property
    def data_folder(self) -> Path:
        """Where workers and spools keep their files."""
        ...

    @property
    def ring_bytes(self) -> int:
        """Shared memory between a worker and the agent."""
        ...

    @property
    def spool_max_bytes(self) -> int:
        """Disk behind it, before batches are dropped and counted."""
        ...

    @property
    def worker_memory_bytes(self) -> int:
        """Memory a worker may hold; 0 is no bound."""
        ...

    @property
    def heartbeat_s(self) -> float:
        """Seconds between renewals of the lease."""
        ...

    @property
    def run_silence_s(self) -> float:
        """Seconds without a sign of life that end a run."""
        ...
