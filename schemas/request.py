"""Commands that anyone may send, and their answers, as JSON or msgpack without an envelope."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from schemas.encoding.faults import truncate
from schemas.level import Level, LevelField, level_of
from schemas.manifest import (
    DatasetManifest,
    FrameworkField,
    HardwareManifest,
    ModelManifest,
    SoftwareManifest,
)
from schemas.message import Command, Message, leaving_out
from schemas.values.identity import Token
from schemas.values.numbers import Count, Integer, Number
from schemas.values.texts import MOST_ENTRIES, Entries, Labels, Note, ShortText

Positive = Annotated[Number, Field(gt=0, allow_inf_nan=False)]
MOST_AGENTS = 4096
"""Agents that a command may name or price: four times the largest fleet of docs/operations.md."""
_MOST_LOADS = 64
_MOST_TABLES = 256
_Variant = Literal["", "serialised", "counters"]
_VARIANTS: tuple[_Variant, ...] = get_args(_Variant)
Prices = Annotated[dict[Token, Positive], Field(max_length=MOST_AGENTS)]
"""Dollars an hour, by agent."""
Visibility = Literal["cluster", "private"]
IMPORTED, MEASURED_BY = "imported", "measured_by"
"""Labels of a request that plays a recording back: its name, and the agent that measured it."""
PURPOSE, PREDICT = "purpose", "predict"
"""The label, and its value, of a request for answers to files, as `mlscope predict` sends."""


class ScenarioChoice(Command):
    """A scenario by name, with parameters other than its defaults."""

    name: ShortText
    parameters: Entries = Field(default_factory=dict)


_ScenariosAsSent = (
    ShortText
    | Annotated[tuple[ShortText | ScenarioChoice, ...], Field(min_length=1, max_length=_MOST_LOADS)]
)
"""Scenarios as a request may name them; a name alone stands for its default parameters."""


class SystemNeed(Command):
    """Requirements on the machine. Empty fields allow any."""

    device: ShortText = ""
    architecture: ShortText = ""
    #: part of an accelerator's name, in any case
    accelerator: ShortText = ""
    interconnect: ShortText = ""
    memory_bytes: Count = Field(default=0, ge=0, le=2**63 - 1)
    accelerator_memory_bytes: Count = Field(default=0, ge=0, le=2**63 - 1)
    labels: Labels = Field(default_factory=dict)
    #: a hardware and a software manifest to satisfy: `name`, `name:constraint`, or inline
    hardware: ShortText | HardwareManifest = ""
    software: ShortText | SoftwareManifest = ""
    #: the container image to run in, the agent's own or one that it starts for the session;
    #: `manifest` means the framework manifest's
    image: ShortText = ""


class Blocks(Command):
    """Stop rule of leveled measurement: the number of blocks.

    A measurement has at least `least` and at most `most` blocks. Between them it ends when the 95%
    interval of the median, relative to it, is narrower than `interval` (0: after exactly `least`
    blocks), or when its blocks have taken `budget_s` seconds (0: no limit). With a budget and no
    interval it measures as many blocks as fit into the budget, up to `most`.

    With `of: result` the interval is that of the scenario's final performance result at the lowest
    level of the measurement, and a percentile must be certified too. Then the measurement ends
    after 3 blocks at the earliest, or when its budget is spent. A load that the scheduler issues
    has exactly `least` blocks if the request gives its `queries`.
    """

    least: Integer = Field(default=1, ge=1, le=1000)
    most: Integer = Field(default=1, ge=1, le=1000)
    interval: Number = Field(default=0.0, ge=0.0, lt=1.0)
    budget_s: Number = Field(default=0.0, ge=0.0, le=86_400.0)
    #: which interval counts: that of the blocks' median, or of the scenario's result
    of: Literal["median", "result"] = "median"

    @model_validator(mode="after")
    def _ordered(self) -> "Blocks":
        if self.most < self.least:
            raise ValueError(f"most ({self.most}) is less than least ({self.least})")
        return self


class Evaluate(Command):
    """Evaluate a model: on which systems, under which loads, at which trace level.

    `model` and `dataset` are `name`, `name:constraint`, or a manifest inline.
    """

    verb = "evaluate"

    model: ShortText | ModelManifest
    framework: FrameworkField = None
    system: SystemNeed = SystemNeed()
    #: only these agents, by id; empty means any
    agents: tuple[Token, ...] = Field(default=(), max_length=MOST_AGENTS)
    #: run on one suitable agent, or on all; each uses the model's first framework that it has
    spread: Literal["one", "all"] = "one"
    scenarios: tuple[ScenarioChoice, ...] = Field(
        default=(ScenarioChoice(name="online"),), min_length=1, max_length=_MOST_LOADS
    )
    batch_sizes: tuple[Integer, ...] = Field(default=(1,), min_length=1, max_length=_MOST_LOADS)
    trace_level: LevelField = Level.MODEL
    #: levels of plain sessions, none deeper than `trace_level`, which they imply; empty: all from
    #: `model` to `trace_level`. `none` and `application` measure the overhead of `model` too
    levels: tuple[LevelField, ...] = Field(default=(), max_length=len(Level))
    dataset: ShortText | DatasetManifest = ""
    #: options of the predictor: threads, execution provider, graph optimisation …
    options: Entries = Field(default_factory=dict)
    #: by collector of traces: off, on, or on with options; by default the level decides
    collectors: dict[ShortText, bool | Entries] = Field(
        default_factory=dict, max_length=MOST_ENTRIES
    )
    #: run each load once more, with one thread that waits for each launch (CUDA_LAUNCH_BLOCKING),
    #: at `trace_level` (without one: `system`) but at most `system`: it shows which kernels belong
    #: to which layer (A2, A8, A11 to A13, column `variant`); its times are not used for overheads
    serialised: bool = False
    #: kinds of sessions, '' for plain ones and cold starts; empty: all that level and agents need
    variants: tuple[_Variant, ...] = Field(default=(), max_length=len(_VARIANTS))
    #: number of queries before the measurement; they are not counted
    warmup: Integer = Field(default=3, ge=0, le=10_000)
    #: when the measurement ends; without it, when the result is known to 5% or its budget is spent
    blocks: Blocks | None = None
    #: who issues the load: `auto` is remote for open loops at level model or above, else local
    pacing: Literal["auto", "local", "remote"] = "auto"
    #: how many predictions of each run to keep
    outputs: Integer = Field(default=64, ge=0, le=100_000)
    #: seconds after which a run fails
    run_timeout_s: Number = Field(default=600.0, gt=0, le=86_400)
    #: seconds to wait for a suitable agent; 0 refuses at once
    wait_s: Number = Field(default=0.0, ge=0, le=86_400)
    #: a repeated request with the same key gets the same evaluation
    key: str = Field(default="", max_length=256)
    #: who sees it: everybody, or only the requester and owners
    visibility: Visibility = "cluster"
    labels: Labels = Field(default_factory=dict)

    @field_validator("scenarios", mode="before", json_schema_input_type=_ScenariosAsSent)
    @classmethod
    def _scenarios_by_name(cls, value: object) -> object:
        if isinstance(value, str):
            value = [value]
        if isinstance(value, list | tuple):
            # Pydantic would count them too late: a map for each of millions takes a gigabyte.
            if len(value) > _MOST_LOADS:
                raise ValueError(f"at most {_MOST_LOADS} entries; leave some out")
            return [{"name": item} if isinstance(item, str) else item for item in value]
        return value

    @model_validator(mode="before")
    @classmethod
    def _levels_imply_the_trace_level(cls, value: Any) -> Any:
        """Without a `trace_level`, it is the deepest of `levels`, and `system` for `serialised`."""
        if not isinstance(value, dict) or value.get("trace_level") not in (None, ""):
            return value
        if not value.get("levels"):
            # Kernel launches are traced from this level on: above it, waiting shows nothing.
            return {**value, "trace_level": Level.SYSTEM} if value.get("serialised") else value
        try:
            if len(value["levels"]) > len(Level):
                return value
            deepest = max(level_of(level) for level in value["levels"])
        except (ValueError, TypeError):
            return value
        return {**value, "trace_level": max(deepest, Level.MODEL)}

    @field_validator("levels")
    @classmethod
    def _levels_are_traced(
        cls, value: tuple[Level, ...], information: ValidationInfo
    ) -> tuple[Level, ...]:
        traced = information.data.get("trace_level", Level.FULL)
        if any(level > traced for level in value):
            deepest = max(value).name.lower()
            raise ValueError(
                f"none deeper than trace_level, {traced.name.lower()}; leave trace_level out, or "
                f"ask for trace_level {deepest}"
            )
        return value

    @field_validator("batch_sizes")
    @classmethod
    def _batch_sizes_count(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(size < 1 or size > 65_536 for size in value):
            raise ValueError("a batch size is an integer from 1 to 65536")
        if len(set(value)) != len(value):
            raise ValueError("a batch size is listed twice")
        return value


class Match(Evaluate):
    """Ask which agents could run this evaluation, and with how many runs. Nothing is started."""

    verb = "match"


class Cancel(Command):
    """End an evaluation now; measured results are kept."""

    verb = "cancel"
    evaluation: Token
    reason: Note = ""


ListOrder = Literal["newest", "oldest", "model", "state", "throughput", "latency", "noise"]
"""Orders of a list: `throughput` descending, `latency` ascending, by the best load of each; `noise`
has those without a caveat about noise first."""


class ListEvaluations(Command):
    """List the evaluations that match, newest first; constraints are as in requests.

    A value that the log does not have yet (the model's version before planning) matches none.
    """

    verb = "evaluations"
    limit: Count = Field(default=50, ge=1, le=1000)
    #: `name` or `name:constraint`
    model: ShortText = ""
    state: str = Field(default="", max_length=64)
    #: of the planned framework: `name`, `name:constraint` or both as a map
    framework: FrameworkField = None
    #: of the planned device, and of the agents as they are now
    system: SystemNeed = SystemNeed()
    #: with a run on any of these agents
    agents: tuple[Token, ...] = Field(default=(), max_length=64)
    #: all of these labels in the request
    labels: Labels = Field(default_factory=dict)
    #: also evaluations that only answer files (label purpose=predict); with a purpose in `labels`
    #: they are listed anyway
    predictions: bool = False
    #: requested by this person
    requested_by: str = Field(default="", max_length=64)
    #: words that all occur, in any case, in model, framework, device, agents, labels, state, id or
    #: the name of the requester
    search: str = Field(default="", max_length=400)
    #: how many matching evaluations to leave out, for the pages of a list
    offset: Count = Field(default=0, ge=0, le=2**31 - 1)
    #: evaluations without the figure come last; equal ones are newest first
    sort: ListOrder = "newest"
    _written = leaving_out("predictions")


class ShowEvaluation(Command):
    """Show the state of one evaluation."""

    verb = "evaluation"
    evaluation: Token


class ShowCatalog(Command):
    """Show the catalog: agents, models, frameworks, datasets, scenarios.

    `version` selects manifests whose version satisfies a constraint: `>=1.2 <2`.
    """

    verb = "catalog"
    kind: Literal[
        "", "agent", "model", "framework", "dataset", "scenario", "hardware", "software", "price"
    ] = ""
    name: ShortText = ""
    version: ShortText = ""


class ShowTables(Command):
    """Show analysis tables of an evaluation; empty `tables` means all.

    Each has its rows from `offset` on, at most `limit`, and no more than fit into the answer.
    """

    verb = "tables"
    evaluation: Token
    tables: tuple[ShortText, ...] = Field(default=(), max_length=_MOST_TABLES)
    offset: Count = Field(default=0, ge=0, le=2**31 - 1)
    #: 0 is as many as fit
    limit: Count = Field(default=0, ge=0, le=2**31 - 1)


class ShowPredictions(Command):
    """Show a model's answers in an evaluation with the ground truth, from `offset` on.

    Empty `run` means all runs, by name. At most `limit`, and no more than fit into the answer.
    """

    verb = "predictions"
    evaluation: Token
    run: str = Field(default="", max_length=64)
    offset: Count = Field(default=0, ge=0, le=2**31 - 1)
    #: 0 is as many as fit
    limit: Count = Field(default=0, ge=0, le=2**31 - 1)


class Compare(Command):
    """Compare the answers of two evaluations of the same samples, or their figures.

    An empty run means the evaluation's first run, by name, that kept answers. With `figures`, the
    figures of both evaluations and of `others` are compared instead of answers.
    """

    verb = "compare"
    first: Token
    second: Token
    first_run: str = Field(default="", max_length=64)
    second_run: str = Field(default="", max_length=64)
    figures: bool = False
    others: tuple[Token, ...] = Field(default=(), max_length=62)
    #: dollars an hour, by agent
    prices: Prices = Field(default_factory=dict)
    #: targets for the choice among them; None is no target
    most_latency_ns: Positive | None = None
    #: dollars a million inferences
    most_cost: Positive | None = None
    least_accuracy: Positive | None = None


class ShowFlow(Command):
    """Show the facts of an evaluation in their order, without batches, from `offset` on."""

    verb = "flow"
    evaluation: Token
    offset: Count = Field(default=0, ge=0, le=2**31 - 1)


class Accepted(Message):
    """The request is recorded. `address` is the evaluation's page; `repeated`: the key existed."""

    accepted: Literal[True] = True
    evaluation: Token
    address: str = ""
    repeated: bool = False


class AgentReason(Message):
    """The reason why one agent can't run the request."""

    agent: Token
    reason: str

    @field_validator("reason")
    @classmethod
    def _cut(cls, value: str) -> str:
        return truncate(value, 1000)


_LENGTH_LIMITS: Mapping[str, int] = MappingProxyType(
    {"found": 200, "field": 200, "message": 4000, "allowed": 4000}
)


class Refused(Message):
    """The answer to a refused request: it names the wrong field, or gives each agent's reason.

    `error` is one of: malformed, invalid, unknown, unsatisfiable, busy, conflict, unavailable,
    forbidden (the asker's role), exhausted (the asker's limits). Long texts are truncated.
    """

    accepted: Literal[False] = False
    error: str
    message: str
    field: str = ""
    found: str = ""
    allowed: str = ""
    agents: tuple[AgentReason, ...] = ()

    @field_validator(*_LENGTH_LIMITS)
    @classmethod
    def _cut(cls, value: str, field: ValidationInfo) -> str:
        return truncate(value, _LENGTH_LIMITS[str(field.field_name)])
