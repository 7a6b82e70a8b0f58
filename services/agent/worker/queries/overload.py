"""Detects an open load whose queries come faster than they are served. Pure."""

from dataclasses import dataclass

_SHARE = 0.1
_QUERIES = 10


@dataclass(slots=True)
class ServiceBacklog:
    """When one block's queries came and ended; CLOCK_MONOTONIC nanoseconds.

    Queries are taken to come one at a time: in a load with few large groups of queries that are due
    together, the last group looks like an overload.
    """

    queries: int = 0
    _issued_ns: tuple[int, int] = (0, 0)
    _ended_ns: tuple[int, int] = (0, 0)

    def add(self, issued_ns: int, ended_ns: int) -> None:
        """Count a query; queries come in order."""
        is_first = self.queries == 0
        self.queries += 1
        self._issued_ns = (issued_ns if is_first else self._issued_ns[0], issued_ns)
        self._ended_ns = (ended_ns if is_first else self._ended_ns[0], ended_ns)

    @property
    def coming_ns(self) -> int:
        """The time from the first arrival to the last."""
        return self._issued_ns[1] - self._issued_ns[0]

    @property
    def serving_ns(self) -> int:
        """The time from the first end to the last."""
        return self._ended_ns[1] - self._ended_ns[0]

    def is_overload(self, service_ns: float) -> bool:
        """Return whether queries queued up; one of them takes `service_ns`.

        Then the last query's latency exceeds the first one's by a tenth of the load's length and
        by ten queries' work; otherwise it exceeds it by chance only.
        """
        behind_ns = self.serving_ns - self.coming_ns
        return behind_ns > max(_SHARE * self.coming_ns, _QUERIES * service_ns) > 0

    def note(self) -> str:
        """Return the caveat of an overload."""
        return (
            f"overload: {self.queries} queries arrived within {self.coming_ns * 1e-9:.2f} s"
            f" and were served within {self.serving_ns * 1e-9:.2f} s"
        )
