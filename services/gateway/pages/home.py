"""The first page: what runs now, the fleet, regressions, and the latest evaluations. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from mlscope.counts import many
from schemas.status import AgentStatus, EvaluationStatus
from services.gateway.pages.catalog.agents import AgentRow, agent_rows
from services.gateway.pages.comparing.regressions import Regression, regressions_in
from services.gateway.pages.evaluations import PLAIN_HEADS, EvaluationRow, Head, evaluation_rows

MOST_SHOWN = 12
"""Evaluations under way that are shown with their progress; the others are counted."""
_LATEST = 8
_MOST_REGRESSIONS = 5
_SLOWER_ORDERS: Mapping[str, str] = MappingProxyType(
    {"certain": "certain change", "change": "estimate", "quiet": "least noise"}
)
_OVER = frozenset({"recorded", "failed", "incomplete", "interrupted", "cancelled", "ended"})


@dataclass(frozen=True, slots=True)
class Overview:
    """What the services know now; `open` has runs, `history` is newest first and without runs."""

    open: Sequence[EvaluationStatus]
    #: evaluations under way, beside those of `open`
    further_open: int
    history: Sequence[EvaluationStatus]
    agents: Sequence[AgentStatus]

    @property
    def digest(self) -> str:
        """A text that changes with everything that the page shows, except progress."""
        content = [
            [
                [status.evaluation, status.state, [(run.run, run.state) for run in status.runs]]
                for status in self.open
            ],
            self.further_open,
            [(status.evaluation, status.state) for status in self.history[: 2 * _LATEST]],
            [(agent.announcement.agent, agent.state, agent.since_ns) for agent in self.agents],
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class OpenRow:
    """An evaluation under way."""

    status: EvaluationStatus

    @property
    def runs_over(self) -> int:
        """How many of its runs have ended."""
        return sum(run.state in _OVER for run in self.status.runs)

    @property
    def progress(self) -> float:
        """The share of its runs that have ended."""
        return self.runs_over / len(self.status.runs) if self.status.runs else 0.0

    @property
    def current(self) -> str:
        """What it does now."""
        started = [run for run in self.status.runs if run.state == "started"]
        if started:
            return f"{started[0].run} on {started[0].agent}"
        if self.status.state == "postponed":
            return "waits for a suitable agent"
        agents = ", ".join(self.status.agents)
        return f"waits for {agents}" if self.status.state == "planned" and agents else ""

    @property
    def runs_text(self) -> str:
        """How many runs are over, of how many."""
        return f"{self.runs_over} of {many(len(self.status.runs), 'run')}"


@dataclass(frozen=True, slots=True)
class HomeView:
    """The first page."""

    overview: Overview
    can_compare: bool
    can_start: bool
    shows_agents: bool
    shows_history: bool = False
    slower: str = "certain"
    template: ClassVar[str] = "home.html"
    title: ClassVar[str] = "Home"
    heads: ClassVar[Sequence[Head]] = PLAIN_HEADS

    @property
    def open(self) -> list[OpenRow]:
        """The evaluations under way."""
        return [OpenRow(status) for status in self.overview.open]

    @property
    def fleet(self) -> list[AgentRow]:
        """The agents, those that are live first."""
        return agent_rows(self.overview.agents, self.overview.open)

    @property
    def fleet_text(self) -> str:
        """How many agents are busy, idle and gone."""
        conditions = [row.condition for row in self.fleet]
        counts = [
            (conditions.count("busy"), "busy"),
            (conditions.count("idle"), "idle"),
            (len(conditions) - conditions.count("busy") - conditions.count("idle"), "gone"),
        ]
        return ", ".join(f"{count} {name}" for count, name in counts if count)

    @property
    def latest(self) -> list[EvaluationRow]:
        """The latest evaluations that have ended."""
        shown = {status.evaluation for status in self.overview.open}
        ended = [status for status in self.overview.history if status.evaluation not in shown]
        return evaluation_rows(ended[:_LATEST])

    @property
    def regressions(self) -> list[Regression]:
        """The loads that became slower."""
        return regressions_in(self.overview.history, self.slower)[:_MOST_REGRESSIONS]

    @property
    def slower_orders(self) -> list[tuple[str, str, bool]]:
        """How regressions may be sorted: names, addresses, and whether they are sorted so."""
        return [
            (name, f"/?slower={order}#regressions", order == self.slower)
            for order, name in _SLOWER_ORDERS.items()
        ]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever evaluated."""
        return not (self.overview.open or self.overview.history)
