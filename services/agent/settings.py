"""The settings of an agent; `mlscope.settings.Settings` has them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from mlscope.bus.nats.settings import NatsSettings
from services.agent.fetching.fetching import FetchSettings
from services.agent.link.allowances import AllowanceSettings
from services.agent.link.bounds import BoundSettings


class AgentSettings(FetchSettings, AllowanceSettings, BoundSettings, NatsSettings, Protocol):
    """An agent's name, what it offers, and its limits."""

    @property
    def agent_id(self) -> str:
        """The agent's name, unique in a fleet."""
        ...

    @property
    def may_number_agent(self) -> bool:
        """Whether the agent may add a number to its name where the name is taken."""
        ...

    @property
    def agent_labels(self) -> Mapping[str, str]:
        """Labels that requests may match on."""
        ...

    @property
    def agent_image(self) -> str:
        """The container image it runs in."""
        ...

    @property
    def opens_any_model(self) -> bool:
        """Whether it opens models that are not of its own manifests."""
        ...

    @property
    def containers(self) -> str:
        """The engine in which it may start sessions: docker, podman, or '' for none."""
        ...

    @property
    def agent_predictors(self) -> tuple[str, ...]:
        """Frameworks to offer; empty: all."""
        ...

    @property
    def data_folder(self) -> Path:
        """Where workers and spools keep their files."""
        ...

    @property
    def ring_bytes(self) -> int:
        """Shared memory between a worker and its host."""
        ...

    @property
    def spool_max_bytes(self) -> int:
        """Disk space for batches beyond the shared memory; further ones are dropped."""
        ...

    @property
    def live_interval_s(self) -> float:
        """Seconds between the takes of a worker's batches while it measures."""
        ...

    @property
    def worker_variables(self) -> tuple[str, ...]:
        """Names of variables that workers get although they look like secrets."""
        ...

    @property
    def heartbeat_s(self) -> float:
        """Seconds between renewals of the lease."""
        ...

    @property
    def run_silence_s(self) -> float:
        """Seconds without a heartbeat of the worker, or in one predict call, that end a run."""
        ...
