"""Pipelines: the steps before and behind a model, and how many spans a query of it makes."""

from dataclasses import dataclass

from schemas.level import Level
from schemas.manifest import ModelManifest, Port, Step
from services.agent.errors import OpenFailed
from services.agent.steps import Operator, operator_of
from services.agent.steps.parameters import LabelReader

QUERY, PREDICT = "query", "predict"


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The steps of a model: `before` runs for each sample, `behind` once for each query."""

    before: tuple[Step, ...]
    behind: tuple[Step, ...]
    #: the output that the steps behind take; '' is the first
    output: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A `StepPlan` ready to use."""

    before: tuple[Operator, ...]
    behind: tuple[Operator, ...]
    output: str = ""


def steps_of(model: ModelManifest) -> StepPlan:
    """Return a model's steps: of its one input, and of the first output that has some.

    Raises OpenFailed for a model of several inputs, which no dataset here supplies.
    """
    if len(model.inputs) != 1:
        raise OpenFailed(model.name, f"has {len(model.inputs)} inputs; datasets supply one")
    chosen = next((port for port in model.outputs if port.steps), None)
    behind = chosen or Port(type="raw")
    return StepPlan(model.inputs[0].steps, behind.steps, behind.layer_name)


def pipeline_of(plan: StepPlan, labels: LabelReader) -> Pipeline:
    """Return the operators of a plan. Raises UnknownStep, BadParameter, AssetError."""
    return Pipeline(
        tuple(operator_of(step, labels) for step in plan.before),
        tuple(operator_of(step, labels) for step in plan.behind),
        plan.output,
    )


def spans_per_query(pipeline: StepPlan | Pipeline, batch_size: int, level: Level) -> int:
    """Return how many spans an answered query has, without its layers.

    none 0; application 1 (the query); model and deeper 1 + batch_size x steps before + 1
    (predict) + steps behind. At framework and deeper the model's layers come on top, as many
    as its runtime executes. A query with a failed sample has fewer.
    """
    if level <= Level.NONE:
        return 0
    if level == Level.APPLICATION:
        return 1
    return 2 + batch_size * len(pipeline.before) + len(pipeline.behind)
