"""Pipelines: the steps before and after a model, and how many spans a query of it has."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mlscope.manifests.ports import is_constant
from schemas.level import Level
from schemas.manifest import CODE_FIELDS, ModelManifest, Port, Step
from services.agent.predictors.decoding import PictureSteps
from services.agent.steps import Operator, operator_of
from services.agent.steps.linking import linked
from services.agent.steps.parameters import LabelReader

QUERY, PREDICT = "query", "predict"
"""The names of the spans of a query and of its predict call."""
PREPARE, ANSWER = "prepare", "answer"
"""The names of the spans of a batch that is prepared ahead, and of its first, untimed answer."""
CALL = "call"
"""The name of the span of an untimed predict call whose parts are recorded."""
CODE_BEFORE, CODE_AFTER = CODE_FIELDS[:3], CODE_FIELDS[3:]
"""A manifest's fields with inline code before and after the model, in the order they run."""


@dataclass(frozen=True, slots=True)
class PortPlan:
    """The steps of one input or output; '' names the one at the same place of the manifest."""

    name: str
    steps: tuple[Step, ...] = ()
    #: the least integer that the model takes, and the first above the largest
    limits: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The steps of a model: `before` runs for each sample, `after` once for each query.

    `before` has each input that samples supply, `after` each output whose answer is kept.
    """

    before: tuple[PortPlan, ...] = (PortPlan(""),)
    after: tuple[PortPlan, ...] = (PortPlan(""),)
    #: outputs in which NaN and infinite values are valid
    allow_nan: frozenset[str] = frozenset()
    #: names of inline code in place of steps: for each sample, and once for each query
    code_before: tuple[str, ...] = ()
    code_after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceDecoding:
    """The first `steps` of an input, carried out by the model's `device` for a batch at once."""

    device: PictureSteps
    steps: int
    #: the orders that the last of them give to a picture of bytes; None: further steps follow
    orders: tuple[tuple[int, ...], ...] | None


@dataclass(frozen=True, slots=True)
class PortOperators:
    """The operators of a `PortPlan`."""

    name: str
    steps: tuple[Operator, ...] = ()
    #: what carries out the first of them; None: each is applied to one sample
    device_decoding: DeviceDecoding | None = None
    #: as in the plan
    limits: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The operators of a `StepPlan`."""

    before: tuple[PortOperators, ...] = (PortOperators(""),)
    after: tuple[PortOperators, ...] = (PortOperators(""),)
    allow_nan: frozenset[str] = frozenset()
    #: inline code in place of steps: for each sample, and once for each query
    code_before: tuple[Operator, ...] = ()
    code_after: tuple[Operator, ...] = ()

    def notes(self) -> Iterator[str]:
        """Yield what a reader of a run must know of its steps' results."""
        for port in (*self.before, *self.after):
            for step in port.steps:
                yield from step.notes

    @property
    def device_decoding(self) -> DeviceDecoding | None:
        """What the model's device carries out of the steps before the model; None: nothing."""
        return self.before[0].device_decoding if self.before else None

    def libraries(self) -> tuple[str, ...]:
        """Return the libraries that prepare pictures, with their versions, each once."""
        steps = (step for port in self.before for step in port.steps)
        return tuple(dict.fromkeys(step.library for step in steps if step.library))

    def outputs_read(self) -> Iterator[str]:
        """Yield the names of the outputs that steps after the model read; code may read any."""
        if self.code_after:
            return
        for port in self.after:
            if port.name:
                yield port.name
            for step in port.steps:
                yield from step.extra_outputs


def steps_of(model: ModelManifest) -> StepPlan:
    """Return a model's steps.

    Outputs with steps are kept; without any, the first output is. An output that another one's
    step reads (as `boxes` reads scores) needs no steps of its own.
    """
    after = tuple(_plan(port) for port in model.outputs if port.steps)
    return StepPlan(
        tuple(_plan(port) for port in model.inputs if not is_constant(port)),
        after or (PortPlan(""),),
        frozenset(port.layer_name for port in model.outputs if port.allow_nan),
        tuple(name for name in CODE_BEFORE if getattr(model, name)),
        tuple(name for name in CODE_AFTER if getattr(model, name)),
    )


def pipeline_of(plan: StepPlan, labels: LabelReader) -> Pipeline:
    """Return the operators of a plan, without its inline code; `labels` reads label files.

    Raises UnknownName, BadParameter, FileUnusable.
    """

    def operators(ports: Iterable[PortPlan]) -> tuple[PortOperators, ...]:
        return tuple(
            PortOperators(
                port.name,
                linked([operator_of(step, labels) for step in port.steps]),
                limits=port.limits,
            )
            for port in ports
        )

    return Pipeline(operators(plan.before), operators(plan.after), plan.allow_nan)


def steps_in(ports: Iterable[PortPlan | PortOperators]) -> int:
    """Return how many steps the ports have device_decoding."""
    return sum(len(port.steps) for port in ports)


def steps_before(pipeline: StepPlan | Pipeline) -> int:
    """Return how many operators prepare one sample, including inline code."""
    return len(pipeline.code_before) + steps_in(pipeline.before)


def steps_after(pipeline: StepPlan | Pipeline) -> int:
    """Return how many operators post-process one query, including inline code."""
    return len(pipeline.code_after) + steps_in(pipeline.after)


def spans_per_query(pipeline: StepPlan | Pipeline, batch_size: int, level: Level) -> int:
    """Return how many spans a query of a pipeline has when all its samples are answered.

    At `level` none 0; application 1 (the query); model and deeper 1 + `batch_size` x steps before
    (of all inputs together) + 1 (predict) + steps after (of all outputs together). At framework and
    deeper the layers that its runtime executes come on top. A query with a failed sample has fewer.
    """
    if level <= Level.NONE:
        return 0
    if level == Level.APPLICATION:
        return 1
    return 2 + batch_size * steps_before(pipeline) + steps_after(pipeline)


def _plan(port: Port) -> PortPlan:
    return PortPlan(port.layer_name, port.steps, port.range)
