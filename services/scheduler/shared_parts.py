"""Equal parts of agents' announcements as one object. Mutable, without I/O.

A thousand agents of one kind then take little more memory than one, and matching, which remembers
what it decided by the identity of a part, decides once for all of them.
"""

from typing import Any

from schemas.status import AgentStatus

_PARTS = ("runtimes", "collectors", "packages", "builders", "models", "hosts", "cached")
_MOST_PARTS = 4096


class SharedParts:
    """The first object of each value that a part of an announcement had."""

    def __init__(self) -> None:
        """Begin without any."""
        self._first: dict[tuple[str, Any], Any] = {}

    def of(self, status: AgentStatus) -> AgentStatus:
        """Return an agent with the parts that equal ones of earlier agents have."""
        if len(self._first) > _MOST_PARTS:
            self._first.clear()
        parts = {name: getattr(status.announcement, name) for name in _PARTS}
        shared = {name: self._first.setdefault((name, part), part) for name, part in parts.items()}
        announcement = status.announcement.model_copy(update=shared)
        return status.model_copy(update={"announcement": announcement})
