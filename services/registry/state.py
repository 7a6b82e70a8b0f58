"""The catalog as a fold of the facts of agents and of the registry. Pure.

Facts about agents and manifests are in two streams, independent of each other, so any interleaving
gives the same state. Agents that left long ago are removed by the times at which the server
stored the facts, so that the same log always gives the same state, whatever an agent's clock says.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from mlscope.bus.records import Recorded
from mlscope.bus.streams import MAX_PAYLOAD_BYTES
from mlscope.manifests.constraints import constraint_of, satisfies, version_order
from mlscope.manifests.digests import canonical, canonical_json, digest_of
from schemas.agent import (
    AgentAnnounced,
    AgentDrained,
    AgentLeft,
    AgentLost,
    AgentResumed,
    AgentRevoked,
)
from schemas.encoding.codec import pack
from schemas.manifest import Manifest, ManifestPublished, ManifestWithdrawn
from schemas.message import Fact
from schemas.price import AgentPriced, Price
from schemas.status import AgentStatus, Catalog
from schemas.subjects import manifest_key
from services.registry.errors import AnnouncementTooLarge

_MOST_ANNOUNCED_BYTES = MAX_PAYLOAD_BYTES - 1024
"""The largest announcement, as JSON in the bucket and as msgpack in a fact.

The registry announces an agent again whose lease comes back, and its key can't store a large
payload in an agent's name: the fact has to fit a message, with its envelope.
"""


@dataclass(frozen=True, slots=True)
class Memory:
    """The time for which agents that left or were lost stay in the catalog, and their number."""

    gone_ns: int = 86_400 * 1_000_000_000
    most_gone: int = 256


@dataclass(frozen=True, slots=True)
class RegistryState:
    """Agents by id, manifests by key, and the last sequence folded of each stream.

    `withdrawn` holds, by key, the digest of a manifest when it was withdrawn; `prices`, by agent,
    what an hour costs, also of agents that are forgotten: their figures stay.
    """

    agents: Mapping[str, AgentStatus] = field(default_factory=lambda: MappingProxyType({}))
    manifests: Mapping[str, Manifest] = field(default_factory=lambda: MappingProxyType({}))
    withdrawn: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    prices: Mapping[str, Price] = field(default_factory=lambda: MappingProxyType({}))
    fleet_sequence: int = 0
    catalog_sequence: int = 0
    memory: Memory = Memory()


def evolve(state: RegistryState, recorded: Recorded) -> RegistryState:
    """Return the state after a fact; a repeated fact has no further effect."""
    step = _STEPS.get(type(recorded.fact))
    if step is None:
        return state
    if recorded.fact.entity == "agent":
        after = replace(state, fleet_sequence=max(state.fleet_sequence, recorded.sequence))
        return _forget(step(after, recorded), recorded.at_ns)
    after = replace(state, catalog_sequence=max(state.catalog_sequence, recorded.sequence))
    return step(after, recorded)


def evolve_or_pass_over(
    state: RegistryState, recorded: Recorded
) -> tuple[RegistryState, Exception | None]:
    """Return the state after a fact, and the error of one that cannot be folded.

    That fact changes nothing but the sequence: it must not end the service at each start.
    """
    try:
        return evolve(state, recorded), None
    except Exception as error:  # noqa: BLE001 (whatever a fact holds, the others count)
        field_name = "fleet" if recorded.fact.entity == "agent" else "catalog"
        place: dict[str, Any] = {f"{field_name}_sequence": recorded.sequence}
        return replace(state, **place), error


def _forget(state: RegistryState, now_ns: int) -> RegistryState:
    """Remove agents that have been gone for too long at `now_ns`, and the oldest of too many."""
    gone = sorted(
        (status.since_ns, agent) for agent, status in state.agents.items() if status.state != "live"
    )
    surplus = max(0, len(gone) - state.memory.most_gone)
    dropped = {
        agent
        for place, (since_ns, agent) in enumerate(gone)
        if place < surplus or since_ns < now_ns - state.memory.gone_ns
    }
    if not dropped:
        return state
    remaining = {agent: status for agent, status in state.agents.items() if agent not in dropped}
    return replace(state, agents=remaining)


def fold(log: Iterable[Recorded], memory: Memory | None = None) -> RegistryState:
    """Return the state after all facts of a log."""
    state = RegistryState(memory=memory or Memory())
    for recorded in log:
        state = evolve(state, recorded)
    return state


def _announced(state: RegistryState, recorded: Recorded) -> RegistryState:
    fact = recorded.fact
    assert isinstance(fact, AgentAnnounced)
    packed = pack(fact.model_dump(mode="python"))
    size_bytes = max(len(fact.announcement.model_dump_json()), len(packed))
    if size_bytes > _MOST_ANNOUNCED_BYTES:
        raise AnnouncementTooLarge(fact.agent, size_bytes, _MOST_ANNOUNCED_BYTES)
    current = state.agents.get(fact.agent)
    status = AgentStatus(
        announcement=fact.announcement,
        state="live",
        since_ns=recorded.at_ns,
        is_drained=current is not None and current.is_drained,
    )
    if current is not None and current.model_copy(update={"since_ns": status.since_ns}) == status:
        return state
    return replace(state, agents={**state.agents, fact.agent: status})


def _ended(state: RegistryState, recorded: Recorded) -> RegistryState:
    fact = recorded.fact
    assert isinstance(fact, AgentLeft | AgentLost)
    current = state.agents.get(fact.agent)
    if current is None or current.announcement.incarnation != fact.incarnation:
        return state
    if current.state != "live":
        return state
    how = "left" if isinstance(fact, AgentLeft) else "lost"
    gone = current.model_copy(update={"state": how, "since_ns": recorded.at_ns})
    return replace(state, agents={**state.agents, fact.agent: gone})


def _decided(state: RegistryState, recorded: Recorded) -> RegistryState:
    """Note what the operator decided about an agent that is known."""
    fact = recorded.fact
    assert isinstance(fact, AgentDrained | AgentResumed | AgentRevoked)
    current = state.agents.get(fact.agent)
    if current is None:
        return state
    changes: dict[str, Any] = {"is_drained": isinstance(fact, AgentDrained)}
    if isinstance(fact, AgentRevoked):
        changes |= {"state": "revoked", "since_ns": recorded.at_ns}
    return replace(state, agents={**state.agents, fact.agent: current.model_copy(update=changes)})


def _priced(state: RegistryState, recorded: Recorded) -> RegistryState:
    fact = recorded.fact
    assert isinstance(fact, AgentPriced)
    other_prices = {agent: price for agent, price in state.prices.items() if agent != fact.agent}
    if fact.dollars_per_hour is None:
        return replace(state, prices=other_prices)
    price = Price(
        dollars_per_hour=fact.dollars_per_hour, set_by=fact.set_by, since_ns=recorded.at_ns
    )
    return replace(state, prices={**other_prices, fact.agent: price})


def _published(state: RegistryState, recorded: Recorded) -> RegistryState:
    fact = recorded.fact
    assert isinstance(fact, ManifestPublished)
    key = key_of(fact.manifest)
    return replace(state, manifests={**state.manifests, key: fact.manifest})


def _withdrawn(state: RegistryState, recorded: Recorded) -> RegistryState:
    fact = recorded.fact
    assert isinstance(fact, ManifestWithdrawn)
    key = manifest_key(fact.kind, fact.name, fact.version)
    current = state.manifests.get(key)
    if current is None:
        return state
    remaining = {
        other_key: manifest for other_key, manifest in state.manifests.items() if other_key != key
    }
    return replace(
        state, manifests=remaining, withdrawn={**state.withdrawn, key: digest_of(current)}
    )


_STEPS: Mapping[type[Fact], Callable[[RegistryState, Recorded], RegistryState]] = MappingProxyType(
    {
        AgentAnnounced: _announced,
        AgentLeft: _ended,
        AgentLost: _ended,
        AgentDrained: _decided,
        AgentResumed: _decided,
        AgentRevoked: _decided,
        AgentPriced: _priced,
        ManifestPublished: _published,
        ManifestWithdrawn: _withdrawn,
    }
)


def key_of(manifest: Manifest) -> str:
    """Return the key of a manifest."""
    return manifest_key(manifest.kind, manifest.name, manifest.version)


def digest(state: RegistryState) -> str:
    """Return the sha256 of the whole catalog, in hex; equal logs give equal digests."""
    return hashlib.sha256(canonical_json(entries(state)).encode()).hexdigest()


def entries(state: RegistryState) -> dict[str, str]:
    """Return the content of the bucket `catalog`: JSON text by key."""
    agents = {agent_key(agent): canonical(message) for agent, message in state.agents.items()}
    return agents | {key: canonical(message) for key, message in state.manifests.items()}


def agent_key(agent: str) -> str:
    """Return an agent's key in the bucket `catalog`."""
    return f"agent_{agent}"


def catalog_of(state: RegistryState, kind: str = "", name: str = "", version: str = "") -> Catalog:
    """Return the catalog of `state`, sorted by name and version.

    A non-empty `kind`, `name` or `version` (a constraint) selects entries. Raises BadConstraint.
    """
    fitting = constraint_of(version)

    def selected(entry_kind: str) -> tuple[Any, ...]:
        if kind not in ("", entry_kind):
            return ()
        manifests = (
            m
            for m in state.manifests.values()
            if m.kind == entry_kind and name in ("", m.name) and satisfies(m.version, fitting)
        )
        # As texts, 1.10.0 would come before 1.9.0; equal versions may be written in two ways.
        return tuple(sorted(manifests, key=lambda m: (m.name, version_order(m.version), m.version)))

    agents = (state.agents[agent] for agent in sorted(state.agents) if name in ("", agent))
    return Catalog(
        agents=tuple(agents) if kind in ("", "agent") else (),
        models=selected("model"),
        frameworks=selected("framework"),
        datasets=selected("dataset"),
        scenarios=selected("scenario"),
        hardware=selected("hardware"),
        software=selected("software"),
        prices={
            agent: price
            for agent, price in state.prices.items()
            if kind in ("", "agent", "price") and name in ("", agent)
        },
    )
