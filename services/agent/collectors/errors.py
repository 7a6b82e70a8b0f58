"""What can go wrong with a collector: it never fails a run, it always leaves a note."""

from collections.abc import Iterable

from services.agent.errors import AgentError


class CollectorError(AgentError):
    """A collector can't be used."""

    reason: str


class CollectorUnavailable(CollectorError):
    """A collector can't collect anything in this session or on this machine."""

    def __init__(self, collector: str, reason: str) -> None:
        """Name the collector and why."""
        self.collector, self.reason = collector, reason
        super().__init__(f"collector {collector}: {reason}")


class CollectorForOtherDevices(CollectorUnavailable):
    """A collector is made for other devices than the session's: nobody misses it there."""


class UnknownCollector(CollectorError):
    """No collector has this name."""

    def __init__(self, collector: str, names: Iterable[str]) -> None:
        """Name the requested collector and those that exist."""
        self.collector, self.names = collector, tuple(sorted(names))
        self.reason = f"unknown; known: {', '.join(self.names)}"
        super().__init__(f"collector {collector}: {self.reason}")
