"""Steps of a model and the number of spans they make."""

import pytest

from schemas.level import Level
from schemas.manifest import Step
from services.agent.errors import OpenFailed, UnknownStep
from services.agent.pipeline import StepPlan, pipeline_of, spans_per_query, steps_of
from tests.services.agent.builders import model_named, raw_port

FOUR_AND_TWO = StepPlan(tuple(Step(operator="crop") for _ in range(4)), (Step(operator="a"),) * 2)


@pytest.mark.parametrize(
    ("level", "batch_size", "spans"),
    [
        (Level.NONE, 8, 0),
        (Level.APPLICATION, 8, 1),
        (Level.MODEL, 1, 1 + 4 + 1 + 2),
        (Level.MODEL, 8, 1 + 8 * 4 + 1 + 2),
        (Level.FRAMEWORK, 1, 8),
    ],
)
def test_spans_of_a_query_are_known_before(level: Level, batch_size: int, spans: int) -> None:
    assert spans_per_query(FOUR_AND_TWO, batch_size, level) == spans


def test_a_shipped_model_has_the_steps_of_its_manifest() -> None:
    plan = steps_of(model_named("efficientnet_lite0"))
    assert [step.operator for step in plan.behind] == ["softmax", "topk"]
    pipeline = pipeline_of(plan, lambda _: ("a",) * 1000)
    assert [operator.name for operator in pipeline.before] == [
        step.operator for step in plan.before
    ]
    assert pipeline.output == "logits"


def test_a_model_without_steps_has_only_predict() -> None:
    assert spans_per_query(steps_of(model_named("identity")), 4, Level.MODEL) == 2


def test_an_unknown_step_is_refused_before_anything_runs() -> None:
    plan = StepPlan((Step(operator="sharpen"),), ())
    with pytest.raises(UnknownStep):
        pipeline_of(plan, lambda _: ())


def test_two_inputs_are_more_than_a_dataset_supplies() -> None:
    ports = (raw_port("a", (-1, 4)), raw_port("b", (-1, 4)))
    with pytest.raises(OpenFailed, match="has 2 inputs"):
        steps_of(model_named("identity").model_copy(update={"inputs": ports}))
