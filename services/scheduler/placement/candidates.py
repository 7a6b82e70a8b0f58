"""Who runs a request: of a model for several frameworks, on one of them or on all. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from schemas.level import Level
from schemas.manifest import DatasetManifest, FrameworkManifest, ModelManifest
from schemas.request import AgentReason


@dataclass(frozen=True, slots=True)
class Offer:
    """What agents of one kind would run: a variant of a model, by a framework on a device."""

    framework: str
    version: str
    device: str
    #: the variant for this framework
    model: ModelManifest
    #: how deep the framework alone can be traced
    framework_level: Level
    #: levels that trace collectors add for this framework on this device
    collected: frozenset[Level]
    #: how deep it can be traced in all
    deepest_level: Level
    #: of the framework's build, where one is published
    manifest: FrameworkManifest | None


class Candidate(NamedTuple):
    """An agent that can run the request, and what it would run."""

    agent: str
    incarnation: str
    #: agents of one kind have the same object
    offer: Offer
    #: image of the container that the agent starts for it; '' for none
    container: str = ""

    @property
    def model(self) -> ModelManifest:
        """The variant that it would run."""
        return self.offer.model

    @property
    def framework(self) -> str:
        """The framework that it would run."""
        return self.offer.framework

    @property
    def device(self) -> str:
        """The device that it would use."""
        return self.offer.device


@dataclass(frozen=True, slots=True)
class Match:
    """A request with its names resolved, and the agents for it.

    `agents` are those that run it: the best one, or all that fit; `reasons` say why others cannot.
    `model` is the variant of the first agent's framework; `manifest`, with its `digest`, has all.
    """

    model: ModelManifest
    dataset: DatasetManifest
    agents: tuple[Candidate, ...]
    reasons: tuple[AgentReason, ...]
    digest: str = ""
    #: every agent that fits, the best one first
    fitting: tuple[Candidate, ...] = ()
    manifest: ModelManifest | None = None

    @property
    def session_names(self) -> dict[str, str]:
        """What the names of each agent's sessions begin with: '' for a single agent.

        Otherwise it is the agent and, if the agents have several frameworks, its framework.
        """
        if len(self.agents) == 1:
            return {self.agents[0].agent: ""}
        has_several = len({own.framework for own in self.agents}) > 1
        return {
            own.agent: f"{own.agent}-{own.framework.replace('-', '')}" if has_several else own.agent
            for own in self.agents
        }

    def without_agents(self, reason: str) -> "Match":
        """Return the match with every agent refused for a `reason`."""
        refused = (AgentReason(agent=own.agent, reason=reason) for own in self.fitting)
        return replace(self, agents=(), fitting=(), reasons=(*self.reasons, *refused))


def on_one_framework(matches: Sequence[Match]) -> Match:
    """Return the first of `matches` with agents; there is one for each framework of a model.

    Without any it is the first one, with the reasons of all.
    """
    chosen = next((matched for matched in matches if matched.agents), None)
    return chosen or replace(matches[0], reasons=_joined_reasons(matches))


def on_all_frameworks(matches: Sequence[Match]) -> Match:
    """Return who runs a model on every agent: each on the first framework that it fits.

    `matches` has one for each framework, in the manifest's order. All agents get the samples of
    the first one with agents. Where another framework's would have another shape, it has none.
    """
    first = next((matched for matched in matches if matched.agents), matches[0])
    alike = [
        own
        if own.dataset == first.dataset
        else own.without_agents(
            f"{own.model.framework.name} takes samples of another shape than "
            f"{first.model.framework.name}: request one framework, or a dataset for both"
        )
        for own in matches
    ]
    agents: dict[str, Candidate] = {}
    for matched in alike:
        for candidate in matched.fitting:
            agents.setdefault(candidate.agent, candidate)
    reasons = (reason for reason in _joined_reasons(alike) if reason.agent not in agents)
    candidates = tuple(agents.values())
    return replace(first, agents=candidates, fitting=candidates, reasons=tuple(reasons))


def _joined_reasons(matches: Sequence[Match]) -> tuple[AgentReason, ...]:
    """Return for each agent why it runs none of `matches`, in one text."""
    if len(matches) == 1:
        return matches[0].reasons
    reasons: dict[str, list[str]] = {}
    for matched in matches:
        for reason in matched.reasons:
            reasons.setdefault(reason.agent, []).append(reason.reason)
    return tuple(
        AgentReason(agent=agent, reason="; ".join(dict.fromkeys(texts)))
        for agent, texts in reasons.items()
    )
