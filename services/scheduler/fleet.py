"""What the scheduler knows beside one evaluation: the catalog, who is busy, who issues. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from mlscope.settings import Settings
from schemas.status import AgentStatus, Catalog
from services.scheduler.mirror import Attempt
from services.scheduler.shapes import Shapes


def _no_loads() -> Mapping[str, int]:
    return MappingProxyType({})


def _no_turns() -> Mapping[str, str]:
    return MappingProxyType({})


def _nothing_brought() -> Mapping[str, Mapping[Attempt, float]]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how often, before something counts as over."""

    #: a lost agent's or issuer's run is repeated until so many attempts were lost
    attempts_lost: int = 5
    attempts_died: int = 3
    #: least wait for an agent that fits, once an evaluation was accepted
    agent_grace_s: float = 30.0
    #: beyond the runs' own time-outs, before the scheduler ends them itself
    run_grace_s: float = 120.0
    #: of what an agent says that it took to bring a run's files, so much is waited for besides
    bringing_s: float = 86_400.0
    #: a claim younger than this is not judged by its issuer's lease
    lease_ttl_s: float = 15.0
    #: wait for the collector's word on a failed run
    stored_wait_s: float = 180.0
    #: last resort: wait for the collector's word on a completed run, for the analyzer's on all
    recording_wait_s: float = 900.0
    analysis_wait_s: float = 1800.0


def limits_of(settings: Settings) -> Limits:
    """Return the limits that settings ask for; waits for the collector follow its own deadline."""
    return Limits(
        attempts_lost=settings.run_attempts,
        agent_grace_s=settings.agent_grace_s,
        lease_ttl_s=settings.lease_ttl_s,
        stored_wait_s=3 * settings.batch_deadline_s,
        recording_wait_s=max(900.0, 15 * settings.batch_deadline_s),
        analysis_wait_s=settings.analysis_wait_s,
    )


@dataclass(frozen=True, slots=True)
class Fleet:
    """The world around an evaluation, as this scheduler sees it now."""

    catalog: Catalog
    #: unfinished runs by agent, over all evaluations
    loads: Mapping[str, int] = field(default_factory=_no_loads)
    #: whose turn it is on an agent: the evaluation that may start a group there
    turns: Mapping[str, str] = field(default_factory=_no_turns)
    #: scheduler instances that hold their lease
    issuers: frozenset[str] = frozenset()
    limits: Limits = Limits()
    #: how long, so far, agents took to bring the files of attempts under way, by agent
    brought_s: Mapping[str, Mapping[Attempt, float]] = field(default_factory=_nothing_brought)
    #: loads' shapes known so far
    shapes: Shapes = field(default_factory=Shapes)

    def agent(self, name: str) -> AgentStatus | None:
        """Return an agent of the catalog, or None."""
        for status in self.catalog.agents:
            if status.announcement.agent == name:
                return status
        return None

    def why_gone(self, name: str, incarnation: str) -> str:
        """Return why an agent's start is over, or '' while it lives."""
        status = self.agent(name)
        if status is None:
            return f"agent {name} is not known any more"
        if status.state != "live":
            return f"agent {name} {'was lost' if status.state == 'lost' else 'left'}"
        if incarnation and status.announcement.incarnation != incarnation:
            return f"agent {name} was started anew"
        return ""

    def has_turn(self, evaluation: str, agent: str) -> bool:
        """Tell whether an evaluation may start runs on an agent now."""
        return self.turns.get(agent, evaluation) == evaluation
