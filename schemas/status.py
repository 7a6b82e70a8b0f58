"""Where things stand: what the scheduler answers of evaluations and the registry of the catalog."""

from typing import Literal

from pydantic import Field

from schemas.agent import Announcement
from schemas.identity import Token
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
from schemas.plan import Subject
from schemas.request import AgentReason, Evaluate

State = Literal[
    "requested", "postponed", "planned", "running", "measured", "analyzed", "failed", "cancelled"
]
RunState = Literal[
    "planned", "started", "ended", "recorded", "failed", "incomplete", "interrupted", "cancelled"
]


class RunStatus(Message):
    """One run, as the log tells it."""

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


class EvaluationStatus(Message):
    """One evaluation, as the log tells it. `runs` is empty in lists."""

    evaluation: Token
    state: State
    #: as the request names it, `name:version` once it is planned
    model: str
    requested_ns: int
    request: Evaluate | None = None
    #: what was planned; None in lists, and before. A dataset sent with the request is named only
    subject: Subject | None = None
    #: what was planned, name and version; '' before
    framework: str = ""
    device: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    agents: tuple[Token, ...] = ()
    runs: tuple[RunStatus, ...] = ()
    refusals: tuple[AgentReason, ...] = ()
    tables: tuple[str, ...] = ()
    cause: str = ""
    address: str = ""


def framework_name(subject: Subject) -> str:
    """Return the framework that was planned, with its version where all agents have the same."""
    return f"{subject.framework} {subject.framework_version}".strip()


class EvaluationList(Message):
    """The answer to `evaluations`."""

    evaluations: tuple[EvaluationStatus, ...]


class AgentStatus(Message):
    """An agent of the catalog."""

    announcement: Announcement
    state: Literal["live", "left", "lost"] = "live"
    since_ns: int = 0


class Catalog(Message):
    """What can run where, now: the answer to `catalog`."""

    agents: tuple[AgentStatus, ...] = ()
    models: tuple[ModelManifest, ...] = ()
    frameworks: tuple[FrameworkManifest, ...] = ()
    datasets: tuple[DatasetManifest, ...] = ()
    scenarios: tuple[ScenarioManifest, ...] = ()
    hardware: tuple[HardwareManifest, ...] = ()
    software: tuple[SoftwareManifest, ...] = ()
