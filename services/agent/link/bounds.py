"""How much of its machine a worker may use, as the agent's owner sets it. Pure."""

from dataclasses import dataclass
from typing import Protocol, Self


class BoundSettings(Protocol):
    """The settings that bounds are made of; `mlscope.settings.Settings` has them."""

    @property
    def worker_memory_bytes(self) -> int:
        """Memory that a worker may use; 0 is no limit."""
        ...

    @property
    def disk_reserve_bytes(self) -> int:
        """Disk space that a worker must leave free; 0 is none."""
        ...

    @property
    def worker_processes(self) -> int:
        """Processes and threads that a worker may have; 0 is no limit."""
        ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a worker may use; 0 is no bound."""

    #: of the worker's own process
    memory_bytes: int = 0
    #: of the disk of its agent's folder: what it must leave free
    disk_reserve_bytes: int = 0
    #: processes and threads together
    processes: int = 0

    @classmethod
    def of(cls, settings: BoundSettings) -> Self:
        """Return the bounds that the settings give."""
        return cls(
            settings.worker_memory_bytes, settings.disk_reserve_bytes, settings.worker_processes
        )


NO_BOUNDS = Bounds()
"""No bound at all."""
