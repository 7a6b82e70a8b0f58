"""What decisions depend on beside one evaluation: catalog, agents' loads, live issuers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from schemas.status import AgentStatus, Catalog
from services.scheduler.placement.load_shapes import LoadShapes


class Attempt(NamedTuple):
    """One attempt of a run; `number` counts from 1."""

    evaluation: str
    run: str
    number: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How many attempts a run has, and how long the scheduler waits for other services."""

    #: a run whose agent or issuer is lost is repeated until this number of attempts were lost
    attempts_lost: int = 5
    attempts_died: int = 3
    #: least wait for an agent that fits, once an evaluation was accepted
    agent_grace_s: float = 30.0
    #: time beyond the runs' own time-outs before the scheduler ends them
    run_grace_s: float = 120.0
    #: most of the time that an agent spent on fetching a run's files that is added to its time-out
    fetching_s: float = 86_400.0
    #: a claim younger than this holds, whatever the lease of its issuer says
    lease_ttl_s: float = 15.0
    #: wait for the collector's report on a failed run
    stored_wait_s: float = 180.0
    #: last resort: wait for the collector's report on a completed run, and for the analyzer's
    recording_wait_s: float = 900.0
    analysis_wait_s: float = 1800.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """The agents and the other schedulers, as this scheduler knows them now."""

    catalog: Catalog
    #: unfinished runs by agent, over all evaluations
    loads: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    #: by agent, the evaluation that may start a group of runs there
    turns: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    #: scheduler instances that hold their lease
    issuers: frozenset[str] = frozenset()
    limits: Limits = Limits()
    #: by agent, the seconds spent so far on fetching the files of attempts under way
    fetching_s: Mapping[str, Mapping[Attempt, float]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    shapes: LoadShapes = field(default_factory=LoadShapes)

    def agent(self, name: str) -> AgentStatus | None:
        """Return an agent of the catalog, or None."""
        for status in self.catalog.agents:
            if status.announcement.agent == name:
                return status
        return None

    def why_gone(self, name: str, incarnation: str) -> str:
        """Return why an agent's start is over, or '' while it lives.

        Without an `incarnation` any start of the agent counts.
        """
        status = self.agent(name)
        if status is None:
            return f"agent {name} is no longer in the catalog"
        if status.state != "live":
            return f"agent {name} {'left' if status.state == 'left' else f'was {status.state}'}"
        if incarnation and status.announcement.incarnation != incarnation:
            return f"agent {name} was restarted"
        return ""

    def has_turn(self, evaluation: str, agent: str) -> bool:
        """Tell whether an evaluation may start runs on an agent now."""
        return self.turns.get(agent, evaluation) == evaluation
