"""Plan of an evaluation: its sessions and runs. The scheduler makes it, agents execute it.

The same plan in a file runs on a machine without broker and database (`mlscope agent --plan`).
"""

from typing import Literal

from pydantic import Field

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
from schemas.values.identity import Token
from schemas.values.json_values import JsonObject

Variant = Literal["", "serialised", "counters", "cold"]
"""Kind of a session: plain; with one thread, waiting for each launch; reading hardware counters,
which makes its times invalid; or measuring how its model is opened."""


class RunPlan(Message):
    """One load at one trace level. The blocks of the runs of one `group` interleave."""

    run: Token
    group: int
    scenario: str
    #: the scenario's parameters, including defaults
    parameters: JsonObject = Field(default_factory=dict)
    level: LevelField
    pacing: Literal["local", "remote"] = "local"
    #: queries in one block
    queries: int = Field(ge=1)
    timeout_s: float = 600.0
    #: its own stop rule, where that is another than its subject's
    blocks: Blocks | None = None


class Build(Message):
    """An agent's build of a framework, with the options from its manifest.

    Where the agents of a plan have several frameworks, it names its own with the model's variant.
    """

    framework_version: str = ""
    device: str = "cpu"
    options: JsonObject = Field(default_factory=dict)
    framework_manifest: FrameworkManifest | None = None
    #: image of the container that the agent starts for each session; '' for none
    container: str = ""
    #: '' for the framework of its subject
    framework: str = ""
    #: the model's variant for this framework; None for the model of its subject
    model: ModelManifest | None = None


class SessionPlan(Message):
    """One opened predictor on one agent, at one batch size, and its runs in order."""

    session: Token
    agent: Token
    batch_size: int = Field(ge=1)
    runs: tuple[RunPlan, ...]
    #: kind of its process; results of different variants are never combined
    variant: Variant = ""
    #: its agent's build, if the agents of the plan have different ones
    build: Build | None = None


class Subject(Message):
    """What is measured, and its setup: the same in every session, except the `build`."""

    model: ModelManifest
    #: sha256 of the model manifest's canonical JSON
    model_digest: str = ""
    dataset: DatasetManifest
    framework: str
    framework_version: str = ""
    device: str = "cpu"
    options: JsonObject = Field(default_factory=dict)
    warmup: int = 3
    blocks: Blocks = Blocks()
    outputs: int = 64
    #: by collector of traces: off, on, or on with options
    collectors: dict[str, bool | JsonObject] = Field(default_factory=dict)
    #: the framework's manifest, if one of its version is published
    framework_manifest: FrameworkManifest | None = None
    #: image of the container that the agent starts for each session; '' for none
    container: str = ""
    #: the request's requirements on the machine
    hardware: HardwareManifest | None = None
    software: SoftwareManifest | None = None
    #: notes on the manifests above for readers of the results
    notes: tuple[str, ...] = ()
    #: the model with all its frameworks, if the builds of a plan have several; `model` is the
    #: variant for `framework`
    manifest: ModelManifest | None = None


class Plan(Message):
    """Subject and sessions of an evaluation; `refusals` has the reasons against other agents."""

    subject: Subject
    sessions: tuple[SessionPlan, ...]
    refusals: tuple[AgentReason, ...] = ()
    #: what its results will lack: percentiles that need more queries than their loads have
    notes: tuple[str, ...] = ()

    def subject_of(self, session: str) -> Subject:
        """Return the subject of a session, with its agent's framework, build and model."""
        builds = (plan.build for plan in self.sessions if plan.session == session)
        build = next(builds, None)
        if build is None:
            return self.subject
        fields = {name: getattr(build, name) for name in Build.model_fields}
        fields["framework"] = build.framework or self.subject.framework
        fields["model"] = build.model or self.subject.model
        return self.subject.model_copy(update={**fields, "manifest": None})


class WorkOrder(Message):
    """One group of runs for one agent: the body of the command `start`, the unit of a plan file.

    Idempotent by `evaluation`, run and `attempt`: an agent refuses an attempt before its latest.
    """

    evaluation: Token
    attempt: int = Field(ge=1)
    agent: Token
    #: the agent's start that this order is for ('' any); another one refuses it as stale
    incarnation: str = ""
    session: SessionPlan
    subject: Subject
    #: the runs of `session` to execute now, in order
    runs: tuple[Token, ...]


class WorkAnswer(Message):
    """Answer of an agent to `start`, `stop` and `close`."""

    accepted: bool
    #: empty, or: busy, stale, unknown, stopping
    error: str = ""
    message: str = ""


class OfflinePlan(Message):
    """A plan file for `mlscope agent --plan`: one evaluation on one machine."""

    kind: Literal["plan"] = "plan"
    evaluation: Token
    plan: Plan
    #: the request of the plan; an import repeats it and gets the same plan
    request: Evaluate | None = None
