"""Which agents hold their lease: a bucket's entries seen one after the other. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mlscope.bus.bus import Entry
from schemas.agent import Lease
from schemas.codec import decode_body
from schemas.errors import MalformedMessage

_PREFIX = "agent-"


def _no_leases() -> Mapping[str, Lease]:
    return MappingProxyType({})


def _no_numbers() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Leases:
    """Leases by agent: those held, and the last revision of each."""

    held: Mapping[str, Lease] = field(default_factory=_no_leases)
    revisions: Mapping[str, int] = field(default_factory=_no_numbers)

    def seen(self, entry: Entry) -> "Leases":
        """Return the leases after an entry of the bucket; other holders' entries change nothing."""
        if not entry.key.startswith(_PREFIX):
            return self
        agent = entry.key.removeprefix(_PREFIX)
        lease = _lease(entry)
        if lease is None:
            held = {each: lease for each, lease in self.held.items() if each != agent}
            return replace(self, held=held)
        revisions = {**self.revisions, agent: entry.revision}
        return Leases({**self.held, agent: lease}, revisions)


def lease_key(agent: str) -> str:
    """Return the key of an agent's lease."""
    return f"{_PREFIX}{agent}"


def is_held(entry: Entry | None, incarnation: str) -> bool:
    """Tell whether an agent's entry in the bucket, None for none, is that start's lease."""
    lease = None if entry is None else _lease(entry)
    return lease is not None and lease.incarnation == incarnation


def _lease(entry: Entry) -> Lease | None:
    if entry.value is None:
        return None
    try:
        return decode_body(Lease, entry.value)
    except MalformedMessage:
        return None
