"""What can go wrong with a collector: never a run's end, always a note."""

from collections.abc import Iterable

from services.agent.errors import AgentError


class CollectorError(AgentError):
    """A collector does not give what it might."""

    reason: str


class CollectorUnavailable(CollectorError):
    """A collector can do nothing here."""

    def __init__(self, collector: str, reason: str) -> None:
        """Name the collector and why."""
        self.collector, self.reason = collector, reason
        super().__init__(f"collector {collector}: {reason}")


class UnknownCollector(CollectorError):
    """No collector of this name is known."""

    def __init__(self, collector: str, known: Iterable[str]) -> None:
        """Name the collector asked for and those there are."""
        self.collector, self.known = collector, tuple(sorted(known))
        self.reason = f"unknown; known: {', '.join(self.known)}"
        super().__init__(f"collector {collector}: {self.reason}")


class ReportUnreadable(CollectorError):
    """A profiler's report can't be used."""

    def __init__(self, reason: str) -> None:
        """Say why."""
        self.reason = reason
        super().__init__(f"the report {reason}" if not reason.startswith("the ") else reason)
