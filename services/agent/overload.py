"""Whether an open load came faster than it was served. Pure."""

from dataclasses import dataclass

_SHARE = 0.1
_QUERIES = 10


@dataclass(slots=True)
class Served:
    """One block's queries as they came and as they were done with; CLOCK_MONOTONIC nanoseconds."""

    queries: int = 0
    _came_ns: tuple[int, int] = (0, 0)
    _done_ns: tuple[int, int] = (0, 0)

    def add(self, issued_ns: int, ended_ns: int) -> None:
        """Count a query; they come in order."""
        first = self.queries == 0
        self.queries += 1
        self._came_ns = (issued_ns if first else self._came_ns[0], issued_ns)
        self._done_ns = (ended_ns if first else self._done_ns[0], ended_ns)

    @property
    def coming_ns(self) -> int:
        """Return the time from the first arrival to the last."""
        return self._came_ns[1] - self._came_ns[0]

    @property
    def serving_ns(self) -> int:
        """Return the time from the first end to the last."""
        return self._done_ns[1] - self._done_ns[0]

    def is_overload(self, service_ns: float) -> bool:
        """Say whether queries piled up, `service_ns` being what one of them takes.

        The last query's latency then exceeds the first one's by a tenth of the load's length and
        by ten queries' work; where the load is kept up with, it exceeds it by chance only.
        """
        behind_ns = self.serving_ns - self.coming_ns
        return behind_ns > max(_SHARE * self.coming_ns, _QUERIES * service_ns) > 0

    def note(self) -> str:
        """Return the caveat of an overload."""
        return (
            f"overload: {self.queries} queries came within {self.coming_ns * 1e-9:.2f} s"
            f" and were served within {self.serving_ns * 1e-9:.2f} s"
        )
