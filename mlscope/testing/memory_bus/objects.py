"""An object store in memory: bodies by name, with a size limit."""

import hashlib
from collections.abc import Iterable

from mlscope.bus.errors import Conflict, NoSuchPayload, PayloadMismatch, PayloadsFull
from mlscope.bus.streams import Store, matches


class ObjectState:
    """The state of one object store."""

    def __init__(self, store: Store) -> None:
        """Start empty."""
        self.store = store
        self._held: dict[str, tuple[str, bytes]] = {}
        self.size_bytes = 0

    def put(self, subject: str, name: str, body: bytes) -> str:
        """Store `body` as `name` for a fact on `subject`; return its sha256.

        Raises Conflict, PayloadsFull.
        """
        if (older := self._held.get(name)) is not None:
            if older[1] != body:
                raise Conflict(name, 0)
        elif self.size_bytes + len(body) > self.store.max_bytes:
            raise PayloadsFull(subject, self.store.name)
        else:
            self._held[name] = (subject, bytes(body))
            self.size_bytes += len(body)
        return hashlib.sha256(body).hexdigest()

    def get(self, name: str, sha256: str) -> bytes:
        """Return a payload. Raises NoSuchPayload, PayloadMismatch."""
        if name not in self._held:
            raise NoSuchPayload(name)
        body = self._held[name][1]
        if (actual := hashlib.sha256(body).hexdigest()) != sha256:
            raise PayloadMismatch(name, sha256, actual)
        return body

    def names_on(self, filter_subject: str) -> list[str]:
        """Return the names of the payloads of facts on a filter."""
        return [
            name for name, (subject, _) in self._held.items() if matches(filter_subject, subject)
        ]

    def drop(self, names: Iterable[str]) -> None:
        """Delete the payloads `names`; unknown names have no effect."""
        for name in names:
            _, body = self._held.pop(name, ("", b""))
            self.size_bytes -= len(body)
