"""The catalog as a fold of what agents and the registry said. Pure.

Agents and manifests lie in two streams; neither depends on the other, so any interleaving of
the two gives the same state. Agents gone for long are forgotten by the times of the fleet's facts
alone, so that the same log gives the same state whenever it is folded.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from mlscope.bus.bus import Recorded
from mlscope.manifests.constraints import constraint_of, satisfies
from schemas.agent import AgentAnnounced, AgentLeft, AgentLost
from schemas.manifest import Manifest, ManifestPublished, ManifestWithdrawn
from schemas.message import Fact, Message
from schemas.status import AgentStatus, Catalog
from schemas.subjects import manifest_key


def _no_agents() -> Mapping[str, AgentStatus]:
    return MappingProxyType({})


def _no_manifests() -> Mapping[str, Manifest]:
    return MappingProxyType({})


def _no_digests() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Memory:
    """How long agents that left or were lost stay in the catalog, and how many of them."""

    gone_ns: int = 86_400 * 1_000_000_000
    most_gone: int = 256


@dataclass(frozen=True, slots=True)
class RegistryState:
    """Agents by id, manifests by key, and the last sequence folded of each stream.

    `withdrawn` holds the digest of what a key last stood for when it was withdrawn.
    """

    agents: Mapping[str, AgentStatus] = field(default_factory=_no_agents)
    manifests: Mapping[str, Manifest] = field(default_factory=_no_manifests)
    withdrawn: Mapping[str, str] = field(default_factory=_no_digests)
    fleet_sequence: int = 0
    catalog_sequence: int = 0
    memory: Memory = Memory()


def evolve(state: RegistryState, recorded: Recorded) -> RegistryState:
    """Return the state after a fact; a fact said twice changes nothing the second time."""
    step = _STEPS.get(type(recorded.fact))
    if step is None:
        return state
    if recorded.fact.entity == "agent":
        after = replace(state, fleet_sequence=max(state.fleet_sequence, recorded.sequence))
        return _forget(step(after, recorded), recorded.envelope.time_ns)
    after = replace(state, catalog_sequence=max(state.catalog_sequence, recorded.sequence))
    return step(after, recorded)


def _forget(state: RegistryState, now_ns: int) -> RegistryState:
    """Drop who has been gone for too long by the time of a fact, and the longest gone of many."""
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
    kept = {agent: status for agent, status in state.agents.items() if agent not in dropped}
    return replace(state, agents=kept)


def fold(log: Iterable[Recorded], memory: Memory | None = None) -> RegistryState:
    """Return the state a whole log leads to."""
    state = RegistryState(memory=memory or Memory())
    for recorded in log:
        state = evolve(state, recorded)
    return state


def _announced(state: RegistryState, recorded: Recorded) -> RegistryState:
    fact = recorded.fact
    assert isinstance(fact, AgentAnnounced)
    status = AgentStatus(
        announcement=fact.announcement, state="live", since_ns=recorded.envelope.time_ns
    )
    known = state.agents.get(fact.agent)
    if known is not None and known.model_copy(update={"since_ns": status.since_ns}) == status:
        return state
    return replace(state, agents={**state.agents, fact.agent: status})


def _gone(state: RegistryState, recorded: Recorded) -> RegistryState:
    fact = recorded.fact
    assert isinstance(fact, AgentLeft | AgentLost)
    known = state.agents.get(fact.agent)
    if known is None or known.announcement.incarnation != fact.incarnation:
        return state
    if known.state != "live":
        return state
    how = "left" if isinstance(fact, AgentLeft) else "lost"
    gone = known.model_copy(update={"state": how, "since_ns": recorded.envelope.time_ns})
    return replace(state, agents={**state.agents, fact.agent: gone})


def _published(state: RegistryState, recorded: Recorded) -> RegistryState:
    fact = recorded.fact
    assert isinstance(fact, ManifestPublished)
    key = key_of(fact.manifest)
    return replace(state, manifests={**state.manifests, key: fact.manifest})


def _withdrawn(state: RegistryState, recorded: Recorded) -> RegistryState:
    fact = recorded.fact
    assert isinstance(fact, ManifestWithdrawn)
    key = manifest_key(fact.kind, fact.name, fact.version)
    known = state.manifests.get(key)
    if known is None:
        return state
    left = {each: manifest for each, manifest in state.manifests.items() if each != key}
    return replace(state, manifests=left, withdrawn={**state.withdrawn, key: digest_of(known)})


_STEPS: Mapping[type[Fact], Callable[[RegistryState, Recorded], RegistryState]] = MappingProxyType(
    {
        AgentAnnounced: _announced,
        AgentLeft: _gone,
        AgentLost: _gone,
        ManifestPublished: _published,
        ManifestWithdrawn: _withdrawn,
    }
)


def key_of(manifest: Manifest) -> str:
    """Return the key a manifest goes by."""
    return manifest_key(manifest.kind, manifest.name, manifest.version)


def canonical(message: Message) -> str:
    """Return a message as canonical JSON: keys sorted, no spaces, names on the wire."""
    return _dumped(message.model_dump(mode="json"))


def digest_of(message: Message) -> str:
    """Return the sha256 of a message's canonical JSON, in hex."""
    return hashlib.sha256(canonical(message).encode()).hexdigest()


def _dumped(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(state: RegistryState) -> str:
    """Return the sha256 of everything in the catalog, in hex; the same log gives the same."""
    return hashlib.sha256(_dumped(entries(state)).encode()).hexdigest()


def entries(state: RegistryState) -> dict[str, str]:
    """Return the bucket `catalog` as it should be: key to JSON text."""
    agents = {agent_key(agent): canonical(each) for agent, each in state.agents.items()}
    return agents | {key: canonical(each) for key, each in state.manifests.items()}


def agent_key(agent: str) -> str:
    """Return an agent's key in the bucket `catalog`."""
    return f"agent_{agent}"


def catalog_of(state: RegistryState, kind: str = "", name: str = "", version: str = "") -> Catalog:
    """Return what can run where, sorted; only of one kind or name, or fitting versions, if given.

    Raises BadConstraint.
    """
    fitting = constraint_of(version)

    def some(wanted: str) -> tuple[Any, ...]:
        if kind not in ("", wanted):
            return ()
        found = (
            m
            for m in state.manifests.values()
            if m.kind == wanted and name in ("", m.name) and satisfies(m.version, fitting)
        )
        return tuple(sorted(found, key=lambda manifest: (manifest.name, manifest.version)))

    agents = (state.agents[agent] for agent in sorted(state.agents) if name in ("", agent))
    return Catalog(
        agents=tuple(agents) if kind in ("", "agent") else (),
        models=some("model"),
        frameworks=some("framework"),
        datasets=some("dataset"),
        scenarios=some("scenario"),
        hardware=some("hardware"),
        software=some("software"),
    )
