"""Commands anyone may send, and their answers. Bodies are JSON or msgpack, without envelope."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from schemas.faults import cut
from schemas.identity import Token
from schemas.level import Level, LevelField
from schemas.manifest import (
    DatasetManifest,
    FrameworkNeed,
    HardwareManifest,
    Manifest,
    ModelManifest,
    SoftwareManifest,
)
from schemas.message import Command, Message
from schemas.numbers import Count, Number, Whole


def framework_of(value: object) -> object:
    """Turn `name:constraint` into a need of both."""
    if isinstance(value, str):
        name, _, version = value.partition(":")
        return {"name": name, "version": version}
    return value


Positive = Annotated[Number, Field(gt=0, allow_inf_nan=False)]
FrameworkField = Annotated[FrameworkNeed | None, BeforeValidator(framework_of)]


class ScenarioChoice(Command):
    """A scenario by name, with the parameters that differ from its defaults."""

    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class SystemNeed(Command):
    """What the machine must be. Empty means any."""

    device: str = ""
    architecture: str = ""
    #: part of an accelerator's name, in any case
    accelerator: str = ""
    interconnect: str = ""
    memory_bytes: Count = Field(default=0, ge=0)
    accelerator_memory_bytes: Count = Field(default=0, ge=0)
    labels: dict[str, str] = Field(default_factory=dict)
    #: a hardware and a software manifest that it must fit: `name`, `name:constraint`, or inline
    hardware: str | HardwareManifest = ""
    software: str | SoftwareManifest = ""
    #: the container image the agent must say it runs in; `manifest`: the framework manifest's
    image: str = ""


class Blocks(Command):
    """The stop rule of leveled measurement: it travels in the plan and the worker obeys it.

    A measurement ends after `most` blocks, or after `least` once the median's interval is
    narrower than `interval` (relative, at 95 %; 0 asks for exactly `least`), or once its blocks
    took `budget_s` (0 is no bound), but never before `least`: no block begins after that. With a
    budget and no interval there are as many blocks as fit into it, up to `most`.
    """

    least: Whole = Field(default=1, ge=1, le=1000)
    most: Whole = Field(default=1, ge=1, le=1000)
    interval: Number = Field(default=0.0, ge=0.0, lt=1.0)
    budget_s: Number = Field(default=0.0, ge=0.0, le=86_400.0)

    @model_validator(mode="after")
    def _ordered(self) -> "Blocks":
        if self.most < self.least:
            raise ValueError(f"most ({self.most}) is below least ({self.least})")
        return self


class Evaluate(Command):
    """Evaluate a model: on which systems, under which loads, looking how deep.

    `model` and `dataset` are `name`, `name:constraint`, or a whole manifest sent inline.
    """

    verb = "evaluate"

    model: str | ModelManifest
    framework: FrameworkField = None
    system: SystemNeed = SystemNeed()
    #: these agents only, by id; empty means any
    agents: tuple[Token, ...] = ()
    #: run on one agent that fits, or on all
    spread: Literal["one", "all"] = "one"
    scenarios: tuple[ScenarioChoice, ...] = Field(
        default=(ScenarioChoice(name="online"),), min_length=1, max_length=64
    )
    batch_sizes: tuple[Whole, ...] = Field(default=(1,), min_length=1, max_length=64)
    trace_level: LevelField = Level.MODEL
    #: plain sessions run at these alone, each no deeper than `trace_level`; none named: at all that
    #: it calls for, from `model` on. `none` or `application` among them tell what `model` costs
    levels: tuple[LevelField, ...] = Field(default=(), max_length=len(Level))
    dataset: str | DatasetManifest = ""
    #: options of the predictor: threads, execution provider, graph optimisation …
    options: dict[str, Any] = Field(default_factory=dict)
    #: by collector of traces: switched off, on, or on with options; others as the level wants
    collectors: dict[str, bool | dict[str, Any]] = Field(default_factory=dict)
    #: measure once more with one thread and each launch waited for (CUDA_LAUNCH_BLOCKING), in a
    #: process of its own: of each load one run at the level asked for, at most `system`. Its layers
    #: and kernels are of the same run, as what lies in which is what it tells (A2, A8, A11 to A13,
    #: column `variant`); its times are no level's, so no overhead is taken from them
    serialised: bool = False
    #: of the kinds of sessions that level and agents call for these alone, '' the plain ones, with
    #: which cold starts go; none named: all of them
    variants: tuple[Literal["", "serialised", "counters"], ...] = ()
    #: queries before measuring, not counted
    warmup: Whole = Field(default=3, ge=0, le=10_000)
    blocks: Blocks = Blocks()
    #: who paces: `auto` is remote for open loops at level model or above, else local
    pacing: Literal["auto", "local", "remote"] = "auto"
    #: how many predictions of each run to keep
    outputs: Whole = Field(default=64, ge=0, le=100_000)
    #: seconds a run may take before it is ended as failed
    run_timeout_s: Number = Field(default=600.0, gt=0, le=86_400)
    #: seconds to wait for an agent that fits; 0 refuses at once
    wait_s: Number = Field(default=0.0, ge=0, le=86_400)
    #: same key, same evaluation
    key: str = Field(default="", max_length=256)
    labels: dict[str, str] = Field(default_factory=dict)

    @field_validator("scenarios", mode="before")
    @classmethod
    def _scenarios_by_name(cls, value: object) -> object:
        if isinstance(value, str):
            value = [value]
        if isinstance(value, list | tuple):
            return [{"name": each} if isinstance(each, str) else each for each in value]
        return value

    @model_validator(mode="after")
    def _levels_are_traced(self) -> "Evaluate":
        deepest = self.trace_level.name.lower()
        if any(level > self.trace_level for level in self.levels):
            raise ValueError(f"levels: no level may be deeper than trace_level, {deepest}")
        return self

    @field_validator("batch_sizes")
    @classmethod
    def _batch_sizes_count(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(size < 1 or size > 65_536 for size in value):
            raise ValueError("a batch size is a whole number from 1 to 65536")
        if len(set(value)) != len(value):
            raise ValueError("a batch size is named twice")
        return value


class Cancel(Command):
    """End an evaluation now; what was measured is kept."""

    verb = "cancel"
    evaluation: Token
    reason: str = ""


class ListEvaluations(Command):
    """The newest evaluations that fit, newest first; constraints are those of requests.

    What the log does not tell of an evaluation (its model's version before it is planned) fits no
    constraint.
    """

    verb = "evaluations"
    limit: Count = Field(default=50, ge=1, le=1000)
    #: `name` or `name:constraint`
    model: str = ""
    state: str = ""
    #: `name`, `name:constraint` or both as a map: of the framework that was planned
    framework: FrameworkField = None
    #: of the plan's device, and of the agents as they are known now
    system: SystemNeed = SystemNeed()
    #: with a run on any of these
    agents: tuple[Token, ...] = Field(default=(), max_length=64)
    #: the request's own, all of these
    labels: dict[str, str] = Field(default_factory=dict)


class ShowEvaluation(Command):
    """Where one evaluation is: its state as folded from the log."""

    verb = "evaluation"
    evaluation: Token


class ShowCatalog(Command):
    """What can run where: agents, models, frameworks, datasets, scenarios.

    `version` keeps those manifests whose own version fits a constraint: `>=1.2 <2`.
    """

    verb = "catalog"
    kind: Literal[
        "", "agent", "model", "framework", "dataset", "scenario", "hardware", "software"
    ] = ""
    name: str = ""
    version: str = ""


class PublishManifest(Command):
    """Put a manifest into the catalog. The same text again changes nothing."""

    verb = "publish"
    manifest: Manifest


class WithdrawManifest(Command):
    """Take a manifest out of the catalog."""

    verb = "withdraw"
    kind: Literal["model", "framework", "dataset", "scenario", "hardware", "software"]
    name: str
    version: str


class ShowTables(Command):
    """Analysis tables of an evaluation; `tables` empty means all.

    Of each the rows from `offset` on: at most `limit`, and no more than fit into the answer.
    """

    verb = "tables"
    evaluation: Token
    tables: tuple[str, ...] = ()
    offset: Count = Field(default=0, ge=0, le=2**31 - 1)
    #: 0 is as many as fit
    limit: Count = Field(default=0, ge=0, le=2**31 - 1)


class ShowPredictions(Command):
    """What a model answered in an evaluation, with what is right: the rows from `offset` on.

    `run` empty means all runs, by name. At most `limit`, and no more than fit into the answer.
    """

    verb = "predictions"
    evaluation: Token
    run: str = Field(default="", max_length=64)
    offset: Count = Field(default=0, ge=0, le=2**31 - 1)
    #: 0 is as many as fit
    limit: Count = Field(default=0, ge=0, le=2**31 - 1)


class Compare(Command):
    """How far the answers of two evaluations of the same samples are apart.

    A run empty means the first of its evaluation, by name, that kept answers. With `figures` not
    their answers but their figures, and those of `others`, are set side by side.
    """

    verb = "compare"
    first: Token
    second: Token
    first_run: str = Field(default="", max_length=64)
    second_run: str = Field(default="", max_length=64)
    figures: bool = False
    others: tuple[Token, ...] = Field(default=(), max_length=62)
    #: dollars an hour, by agent
    prices: dict[Token, Positive] = Field(default_factory=dict)
    #: targets of what to choose; None is none
    most_latency_ns: Positive | None = None
    #: dollars for a million inferences
    most_cost: Positive | None = None
    least_accuracy: Positive | None = None


class ShowSpans(Command):
    """Spans of one run of an evaluation, by start and id, those after one: as many as fit.

    `run` empty means the first, by name, that has some. Of a run's attempts the one that counts.
    """

    verb = "spans"
    evaluation: Token
    run: str = Field(default="", max_length=64)
    #: start and id of the last span that is known, of an answer before this
    after_ns: Whole = Field(default=-(2**63), ge=-(2**63), le=2**63 - 1)
    after_span: Whole = Field(default=-(2**63), ge=-(2**63), le=2**63 - 1)
    #: 0 is as many as fit
    limit: Count = Field(default=0, ge=0, le=2**31 - 1)


class ShowFlow(Command):
    """The facts of an evaluation in their order, without its batches: those from `offset` on."""

    verb = "flow"
    evaluation: Token
    offset: Count = Field(default=0, ge=0, le=2**31 - 1)


class Accepted(Message):
    """Durably recorded. `address` is the evaluation's page; `repeated` says the key was known."""

    accepted: Literal[True] = True
    evaluation: Token
    address: str = ""
    repeated: bool = False


class CatalogChanged(Message):
    """The answer to `publish` and `withdraw`; `repeated` says that it was so before."""

    accepted: Literal[True] = True
    kind: str
    name: str
    version: str
    digest: str = ""
    repeated: bool = False


class AgentReason(Message):
    """Why one agent can't run the request."""

    agent: Token
    reason: str

    @field_validator("reason")
    @classmethod
    def _cut(cls, value: str) -> str:
        return cut(value, 1000)


_MOST_CHARACTERS: Mapping[str, int] = MappingProxyType(
    {"found": 200, "field": 200, "message": 4000, "allowed": 4000}
)


class Refused(Message):
    """Not accepted, and why: the field that offends, or every agent's reason.

    `error` is one of: malformed, invalid, unknown, unsatisfiable, busy, conflict, unavailable.
    Texts that repeat what was asked are cut, so that a refusal is small whatever was asked.
    """

    accepted: Literal[False] = False
    error: str
    message: str
    field: str = ""
    found: str = ""
    allowed: str = ""
    agents: tuple[AgentReason, ...] = ()

    @field_validator(*_MOST_CHARACTERS)
    @classmethod
    def _cut(cls, value: str, field: ValidationInfo) -> str:
        return cut(value, _MOST_CHARACTERS[str(field.field_name)])
