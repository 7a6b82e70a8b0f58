"""Pipelines: the steps before and behind a model, and how many spans a query of it makes."""

from collections.abc import Iterable
from dataclasses import dataclass

from schemas.level import Level
from schemas.manifest import CODE_FIELDS, ModelManifest, Port, Step
from services.agent.steps import Operator, operator_of
from services.agent.steps.parameters import LabelReader

QUERY, PREDICT = "query", "predict"
CONSTANT = "constant"
"""The step of an input that no sample supplies."""
CODE_BEFORE, CODE_BEHIND = CODE_FIELDS[:3], CODE_FIELDS[3:]
"""A manifest's fields with inline code, in the order they run."""


@dataclass(frozen=True, slots=True)
class PortPlan:
    """The steps of one input or output; '' names the one in its place of the manifest's order."""

    name: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The steps of a model: `before` runs for each sample, `behind` once for each query.

    `before` has each input that samples supply, `behind` each output whose answer is kept.
    """

    before: tuple[PortPlan, ...] = (PortPlan(""),)
    behind: tuple[PortPlan, ...] = (PortPlan(""),)
    #: outputs of which NaN and infinite values are an answer
    allow_nan: frozenset[str] = frozenset()
    #: names of inline code in place of steps: for each whole sample, and once for each query
    code_before: tuple[str, ...] = ()
    code_behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PortOperators:
    """A `PortPlan` ready to use."""

    name: str
    steps: tuple[Operator, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A `StepPlan` ready to use."""

    before: tuple[PortOperators, ...] = (PortOperators(""),)
    behind: tuple[PortOperators, ...] = (PortOperators(""),)
    allow_nan: frozenset[str] = frozenset()
    #: inline code in place of steps: for each whole sample, and once for each query
    code_before: tuple[Operator, ...] = ()
    code_behind: tuple[Operator, ...] = ()


def steps_of(model: ModelManifest) -> StepPlan:
    """Return a model's steps.

    Behind it are the outputs that have some; of a model without any, the first. What another
    output's step reads (as `boxes` reads scores) needs no steps of its own.
    """
    behind = tuple(_plan(port) for port in model.outputs if port.steps)
    return StepPlan(
        tuple(_plan(port) for port in model.inputs if not is_constant(port)),
        behind or (PortPlan(""),),
        frozenset(port.layer_name for port in model.outputs if port.allow_nan),
        tuple(name for name in CODE_BEFORE if getattr(model, name)),
        tuple(name for name in CODE_BEHIND if getattr(model, name)),
    )


def is_constant(port: Port) -> bool:
    """Say whether an input has the same value for every sample: its one step is `constant`."""
    return bool(port.steps) and port.steps[0].operator == CONSTANT


def pipeline_of(plan: StepPlan, labels: LabelReader) -> Pipeline:
    """Return the operators of a plan, but for its inline code.

    Raises UnknownStep, BadParameter, AssetError.
    """
    return Pipeline(_ready(plan.before, labels), _ready(plan.behind, labels), plan.allow_nan)


def steps_in(ports: Iterable[PortPlan | PortOperators]) -> int:
    """Return how many steps the ports have together."""
    return sum(len(port.steps) for port in ports)


def steps_before(pipeline: StepPlan | Pipeline) -> int:
    """Return how many operators prepare one sample, inline code among them."""
    return len(pipeline.code_before) + steps_in(pipeline.before)


def steps_behind(pipeline: StepPlan | Pipeline) -> int:
    """Return how many operators finish one query, inline code among them."""
    return len(pipeline.code_behind) + steps_in(pipeline.behind)


def spans_per_query(pipeline: StepPlan | Pipeline, batch_size: int, level: Level) -> int:
    """Return how many spans an answered query has, without its layers.

    none 0; application 1 (the query); model and deeper 1 + batch_size x steps before (of all
    inputs together) + 1 (predict) + steps behind (of all outputs together). At framework and
    deeper the model's layers come on top, as many as its runtime executes. A query with a failed
    sample has fewer.
    """
    if level <= Level.NONE:
        return 0
    if level == Level.APPLICATION:
        return 1
    return 2 + batch_size * steps_before(pipeline) + steps_behind(pipeline)


def _plan(port: Port) -> PortPlan:
    return PortPlan(port.layer_name, port.steps)


def _ready(ports: Iterable[PortPlan], labels: LabelReader) -> tuple[PortOperators, ...]:
    return tuple(
        PortOperators(port.name, tuple(operator_of(step, labels) for step in port.steps))
        for port in ports
    )
