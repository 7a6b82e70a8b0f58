"""What is to be done: an evaluation's sessions and runs. Made by the scheduler, obeyed by agents.

The same plan in a file runs on a machine without broker or database (`mlscope agent --plan`).
"""

from typing import Any, Literal

from pydantic import Field

from schemas.identity import Token
from schemas.level import LevelField
from schemas.manifest import (
    DatasetManifest,
    FrameworkManifest,
    HardwareManifest,
    ModelManifest,
    SoftwareManifest,
)
from schemas.message import Message
from schemas.request import AgentReason, Blocks, Evaluate

Variant = Literal["", "serialised", "counters", "cold"]
"""A session like any other; one whose work waits for each launch and uses one thread; one that
reads hardware counters, whose times say nothing; one that measures how its model is opened."""


class RunPlan(Message):
    """One load at one trace level. Runs of one `group` interleave as blocks in their session."""

    run: Token
    group: int
    scenario: str
    #: the scenario's parameters, defaults filled in
    parameters: dict[str, Any] = Field(default_factory=dict)
    level: LevelField
    pacing: Literal["local", "remote"] = "local"
    #: queries in one block
    queries: int = Field(ge=1)
    timeout_s: float = 600.0


class Build(Message):
    """A framework as one agent has it, and what its manifest gives a session."""

    framework_version: str = ""
    device: str = "cpu"
    options: dict[str, Any] = Field(default_factory=dict)
    framework_manifest: FrameworkManifest | None = None


class SessionPlan(Message):
    """One opened predictor on one agent, at one batch size, and the runs inside it, in order."""

    session: Token
    agent: Token
    batch_size: int = Field(ge=1)
    runs: tuple[RunPlan, ...]
    #: what is special about its process; numbers of different variants are never mixed
    variant: Variant = ""
    #: its agent's own, where those of a plan's agents differ
    build: Build | None = None


class Subject(Message):
    """What is measured and how it is set up: the same in every session, its `build` aside."""

    model: ModelManifest
    #: sha256 of the model manifest's canonical JSON
    model_digest: str = ""
    dataset: DatasetManifest
    framework: str
    framework_version: str = ""
    device: str = "cpu"
    options: dict[str, Any] = Field(default_factory=dict)
    warmup: int = 3
    blocks: Blocks = Blocks()
    outputs: int = 64
    #: by collector of traces: switched off, on, or on with options
    collectors: dict[str, bool | dict[str, Any]] = Field(default_factory=dict)
    #: the framework's manifest, where one of its version is published
    framework_manifest: FrameworkManifest | None = None
    #: what the request asked of the machine
    hardware: HardwareManifest | None = None
    software: SoftwareManifest | None = None
    #: what a reader of the results should know of the manifests above
    notes: tuple[str, ...] = ()


class Plan(Message):
    """An evaluation's subject and sessions; `refusals` says why other agents are not in it."""

    subject: Subject
    sessions: tuple[SessionPlan, ...]
    refusals: tuple[AgentReason, ...] = ()

    def subject_of(self, session: str) -> Subject:
        """Return the subject as a session has it: with its agent's own build of the framework."""
        builds = (each.build for each in self.sessions if each.session == session)
        build = next(builds, None)
        if build is None:
            return self.subject
        own = {name: getattr(build, name) for name in Build.model_fields}
        return self.subject.model_copy(update=own)


class WorkOrder(Message):
    """One group of runs for one agent: the body of the `start` command, and an offline plan's unit.

    Idempotent by `evaluation`, run and `attempt`: an agent refuses an older attempt than it knows.
    """

    evaluation: Token
    attempt: int = Field(ge=1)
    agent: Token
    #: the agent's start this order is for; another refuses it as stale ('' is any)
    incarnation: str = ""
    session: SessionPlan
    subject: Subject
    #: the runs of `session` to do now, in order
    runs: tuple[Token, ...]


class WorkAnswer(Message):
    """An agent's answer to `start`, `stop` and `close`."""

    accepted: bool
    #: empty, or: busy, stale, unknown, stopping
    error: str = ""
    message: str = ""


class OfflinePlan(Message):
    """The file `mlscope agent --plan` reads: a whole evaluation for one machine."""

    kind: Literal["plan"] = "plan"
    evaluation: Token
    plan: Plan
    #: what the plan was made of: an import asks for the same and gets the same plan
    request: Evaluate | None = None
