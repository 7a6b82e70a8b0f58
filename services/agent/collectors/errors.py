"""What can go wrong with a collector: it never fails a run, it always leaves a note."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

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


@contextmanager
def calling_collector(name: str) -> Iterator[None]:
    """Call a collector's code, which may be foreign; raise CollectorUnavailable for what it raises.

    `name` is the collector's. Errors that are a CollectorError already pass as they are.
    """
    try:
        yield
    except CollectorError:
        raise
    except Exception as error:  # a binding raises exceptions of its own, a plug-in what it likes
        raise CollectorUnavailable(name, str(error) or type(error).__name__) from error


class UploadRefused(Exception):
    """A request can't be accepted."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        """Keep the status of the answer and the reason."""
        self.status, self.reason = status, reason
        super().__init__(reason)
