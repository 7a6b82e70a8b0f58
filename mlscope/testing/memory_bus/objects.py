"""An object store in memory: bodies by the agent of their fact and a name, with a size limit."""

import hashlib
from collections.abc import Iterable

from mlscope.bus.errors import Conflict, NoSuchPayload, PayloadMismatch, PayloadsFull
from mlscope.bus.streams import Store, matches
from schemas.subjects import agent_of


class ObjectState:
    """The state of one object store."""

    def __init__(self, store: Store) -> None:
        """Start empty."""
        self.store = store
        self._held: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.size_bytes = 0

    def put(self, subject: str, name: str, body: bytes) -> str:
        """Store `body` as `name` for a fact on `subject`; return its sha256.

        Raises Conflict, PayloadsFull.
        """
        place = (agent_of(subject), name)
        if (older := self._held.get(place)) is not None:
            if older[1] != body:
                raise Conflict(name, 0)
        elif self.size_bytes + len(body) > self.store.max_bytes:
            raise PayloadsFull(subject, self.store.name)
        else:
            self._held[place] = (subject, bytes(body))
            self.size_bytes += len(body)
        return hashlib.sha256(body).hexdigest()

    def get(self, subject: str, name: str, sha256: str) -> bytes:
        """Return the payload `name` of a fact on `subject`, checked against `sha256`.

        Raises NoSuchPayload, PayloadMismatch.
        """
        place = (agent_of(subject), name)
        if place not in self._held:
            raise NoSuchPayload(name)
        body = self._held[place][1]
        if (actual := hashlib.sha256(body).hexdigest()) != sha256:
            raise PayloadMismatch(name, sha256, actual)
        return body

    def payloads_on(self, filter_subject: str) -> list[tuple[str, str]]:
        """Return the payloads of facts on a filter, as the fact's subject and a name."""
        return [
            (subject, name)
            for (_, name), (subject, _) in self._held.items()
            if matches(filter_subject, subject)
        ]

    def drop(self, payloads: Iterable[tuple[str, str]]) -> None:
        """Delete `payloads`, named as `payloads_on` does; unknown ones have no effect."""
        for subject, name in payloads:
            place = (agent_of(subject), name)
            if place in self._held and self._held[place][0] == subject:
                self.size_bytes -= len(self._held.pop(place)[1])
