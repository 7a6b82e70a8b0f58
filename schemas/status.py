"""State of evaluations and of the catalog: the answers of scheduler and registry."""

from typing import Literal

from pydantic import Field

from schemas.agent import Announcement
from schemas.analysis import Headline
from schemas.level import LevelField
from schemas.manifest import (
    DatasetManifest,
    FrameworkManifest,
    HardwareManifest,
    ModelManifest,
    ScenarioManifest,
    SoftwareManifest,
)
from schemas.message import Message
from schemas.plan import Build, Subject
from schemas.price import Price
from schemas.request import AgentReason, Evaluate, Visibility
from schemas.values.identity import Token

State = Literal[
    "requested", "postponed", "planned", "running", "measured", "analyzed", "failed", "cancelled"
]
RunState = Literal[
    "planned", "started", "ended", "recorded", "failed", "incomplete", "interrupted", "cancelled"
]


class RowCounts(Message):
    """Rows of one attempt, by its agent's report or by the collector's."""

    spans: int = 0
    queries: int = 0
    failed_queries: int = 0
    #: counted by the collector while the agent was silent; counted again once it reports
    provisional: bool = False


class RunStatus(Message):
    """One run and the state of its newest attempt."""

    run: Token
    session: Token
    agent: Token
    scenario: str
    level: LevelField
    batch_size: int
    queries: int
    attempt: int = 0
    state: RunState = "planned"
    cause: str = ""
    level_note: str = ""
    caveats: tuple[str, ...] = ()
    spans: int = 0
    answered: int = 0
    failed_queries: int = 0
    #: what its agent reported: empty before that, `completed`, or the kind of its error
    outcome: str = ""
    #: whether no other attempt follows an interruption
    final: bool = False
    #: rows that its agent published, by its own report; None before it
    announced: RowCounts | None = None
    #: rows in the database, by the collector's report; None before it
    stored: RowCounts | None = None
    #: the planned framework, with its version if it is known; '' from an older scheduler
    framework: str = ""


class Extent(Message):
    """What a request asks to measure, in short."""

    #: names of scenarios
    scenarios: tuple[str, ...] = ()
    batch_sizes: tuple[int, ...] = ()
    #: the levels of its runs, or the one down to which it traces
    levels: tuple[str, ...] = ()


class EvaluationStatus(Message):
    """State of one evaluation, from the log. `runs` is empty in lists."""

    evaluation: Token
    state: State
    #: the request's model, `name:version` once it is planned
    model: str
    requested_ns: int
    #: the person who asked for it; '' is the cluster's user
    requested_by: str = ""
    visibility: Visibility = "cluster"
    request: Evaluate | None = None
    #: None in lists, and before planning. A dataset from the request has its name alone
    subject: Subject | None = None
    #: the planned name and version, of each if the agents have several; '' before planning
    framework: str = ""
    device: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    agents: tuple[Token, ...] = ()
    runs: tuple[RunStatus, ...] = ()
    refusals: tuple[AgentReason, ...] = ()
    #: what its results will lack, said when it was planned; in lists, that it was too large for one
    notes: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    #: also in lists, which lack the request; None without a request
    extent: Extent | None = None
    #: main figures of each load; empty before the analysis and for evaluations of release 0.1
    headlines: tuple[Headline, ...] = ()
    #: facts that this cluster could not read: of a newer mlscope, or damaged; 0 in lists
    unread_facts: int = 0
    cause: str = ""
    address: str = ""

    def __str__(self) -> str:
        """Return a few lines to read: what it is, its main figures, why it ended."""
        named = (self.evaluation, self.model, self.framework, self.device, self.state)
        figures = map(headline_text, self.headlines)
        return "\n".join(filter(None, ("  ".join(filter(None, named)), *figures, self.cause)))


def headline_text(headline: Headline) -> str:
    """Return the main figures of a load in one line."""
    parts = [f"  {headline.scenario}, batch {headline.batch_size}"]
    if own := headline.latency_ns:
        parts.append(f"{headline.statistic.replace('_', ' ')} {_number(own.value / 1e6)} ms")
    if own := headline.p90_ns:
        parts.append(f"p90 {_number(own.value / 1e6)} ms")
    if own := headline.samples_per_s:
        parts.append(f"{_number(own.value)} samples/s")
    return ", ".join(parts)


def _number(value: float) -> str:
    """Return a number as people read it, as `mlscope.quantities.number` does."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def framework_name(subject: Subject, build: Build | None = None) -> str:
    """Return the planned framework, with its version if all agents have the same.

    With a `build` it is that of one session of the `subject`, with the version of its agent.
    """
    own = build or subject
    return f"{own.framework or subject.framework} {own.framework_version}".strip()


class FittingAgent(Message):
    """An agent that can run a request, with the framework, version and device it would use."""

    agent: Token
    framework: str
    version: str
    device: str
    #: the deepest level that it can trace, with its collectors
    deepest_level: LevelField
    #: unfinished runs that wait for it or run on it
    waiting_runs: int = 0
    #: whether the evaluation would run on it now: the best agent, or with `spread: all` every one
    chosen: bool = False


class Matched(Message):
    """Answer to `match`: the request's names resolved, the agents that fit, and the work planned.

    Without a fitting agent `runs` is 0 and `reasons` says why, agent by agent.
    """

    #: `name:version`
    model: str
    dataset: str
    agents: tuple[FittingAgent, ...] = ()
    reasons: tuple[AgentReason, ...] = ()
    sessions: int = 0
    runs: int = 0
    #: most seconds that the loads of the busiest agent may take by the stop rule, without opening
    #: the model and without the last blocks' ends; None where the rule has no budget
    budget_s: float | None = None
    #: seconds that the runs of the busiest agent will take once it begins, as earlier runs of the
    #: model there took, without the analysis; None where no earlier run is like them
    expected_s: float | None = None
    #: how many earlier runs say so
    expected_from: int = 0
    #: what the results will lack, as in the plan
    notes: tuple[str, ...] = ()


class EvaluationList(Message):
    """Answer to `evaluations`; `total` counts all that match, None from a release 0.1."""

    evaluations: tuple[EvaluationStatus, ...]
    total: int | None = None


class AgentStatus(Message):
    """An agent in the catalog."""

    announcement: Announcement
    state: Literal["live", "left", "lost", "revoked"] = "live"
    since_ns: int = 0
    #: whether it gets no new evaluations, also after a restart
    is_drained: bool = False


class Catalog(Message):
    """Answer to `catalog`: the agents and manifests now, prices by agent, and refused manifests."""

    agents: tuple[AgentStatus, ...] = ()
    models: tuple[ModelManifest, ...] = ()
    frameworks: tuple[FrameworkManifest, ...] = ()
    datasets: tuple[DatasetManifest, ...] = ()
    scenarios: tuple[ScenarioManifest, ...] = ()
    hardware: tuple[HardwareManifest, ...] = ()
    software: tuple[SoftwareManifest, ...] = ()
    #: also of agents that are gone
    prices: dict[Token, Price] = Field(default_factory=dict)
    #: why the registry refused manifests that mlscope ships, of every kind: by kind and name, or by
    #: file; the first 20
    refused: dict[str, str] = Field(default_factory=dict)
