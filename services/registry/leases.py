"""The agents that hold a lease: a fold of the entries of the bucket `leases`. Pure."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mlscope.bus.records import Entry
from schemas.agent import Lease
from schemas.encoding.codec import decode_body
from schemas.encoding.errors import MalformedMessage

_PREFIX = "agent-"


@dataclass(frozen=True, slots=True)
class Leases:
    """The current leases by agent with their renewals, and the last revision of every lease."""

    by_agent: Mapping[str, Lease] = field(default_factory=lambda: MappingProxyType({}))
    revisions: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    #: when this process saw it, on the monotonic clock
    renewed_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def after(self, entry: Entry, now_s: float) -> "Leases":
        """Return the leases after an `entry` of the bucket that arrives at `now_s` (monotonic)."""
        if not entry.key.startswith(_PREFIX):
            return self
        agent = entry.key.removeprefix(_PREFIX)
        lease = _lease(entry)
        if lease is None:
            by_agent = {name: lease for name, lease in self.by_agent.items() if name != agent}
            renewed_s = {name: at_s for name, at_s in self.renewed_s.items() if name != agent}
            return replace(self, by_agent=by_agent, renewed_s=renewed_s)
        revisions = {**self.revisions, agent: entry.revision}
        renewed_s = {**self.renewed_s, agent: now_s}
        return Leases({**self.by_agent, agent: lease}, revisions, renewed_s)

    def known(self, agents: Container[str]) -> "Leases":
        """Return the leases without the revisions of agents that hold none and are not `agents`."""
        revisions = {
            name: revision
            for name, revision in self.revisions.items()
            if name in self.by_agent or name in agents
        }
        return replace(self, revisions=revisions)

    def renewed_since(self, least_s: float) -> Mapping[str, Lease]:
        """Return the leases that were renewed at `least_s` or later.

        A broker whose clock was set back keeps a lease for as long as its clock was.
        """
        return {
            agent: lease
            for agent, lease in self.by_agent.items()
            if self.renewed_s[agent] >= least_s
        }


def lease_key(agent: str) -> str:
    """Return the key of an agent's lease."""
    return f"{_PREFIX}{agent}"


def is_held(entry: Entry | None, incarnation: str) -> bool:
    """Tell whether an agent's entry (None: it has none) is the lease of this incarnation."""
    lease = None if entry is None else _lease(entry)
    return lease is not None and lease.incarnation == incarnation


def _lease(entry: Entry) -> Lease | None:
    if entry.value is None:
        return None
    try:
        return decode_body(Lease, entry.value)
    except MalformedMessage:
        return None
