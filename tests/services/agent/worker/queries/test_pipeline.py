"""Steps of a model and the number of spans they make."""

import pytest

from schemas.level import Level
from schemas.manifest import Port, Step
from services.agent.errors import UnknownName
from services.agent.worker.queries.pipeline import (
    PortPlan,
    StepPlan,
    pipeline_of,
    spans_per_query,
    steps_of,
)
from tests.services.agent.builders import model_named, raw_port

FOUR_AND_TWO = StepPlan(
    (PortPlan("a", (Step(operator="crop"),) * 3), PortPlan("b", (Step(operator="crop"),))),
    (PortPlan("", (Step(operator="a"),) * 2),),
)


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
    assert [step.operator for step in plan.after[0].steps] == ["softmax", "topk"]
    pipeline = pipeline_of(plan, lambda _: ("a",) * 1000)
    assert [operator.name for operator in pipeline.before[0].steps] == [
        step.operator for step in plan.before[0].steps
    ]
    assert pipeline.after[0].name == "logits"


def test_a_model_without_steps_has_only_predict() -> None:
    assert spans_per_query(steps_of(model_named("identity")), 4, Level.MODEL) == 2


def test_an_unknown_step_is_refused_before_anything_runs() -> None:
    plan = StepPlan((PortPlan("x", (Step(operator="sharpen"),)),))
    with pytest.raises(UnknownName):
        pipeline_of(plan, lambda _: ())


def ports(*names: str) -> tuple[Port, ...]:
    return tuple(raw_port(name, (-1, 4)) for name in names)


def test_a_constant_input_is_supplied_by_no_sample() -> None:
    a, rate = ports("a", "rate")
    rate = rate.model_copy(update={"steps": (Step(operator="constant"),)})
    plan = steps_of(model_named("identity").model_copy(update={"inputs": (a, rate)}))
    assert [port.name for port in plan.before] == ["a"]
    assert spans_per_query(plan, 4, Level.MODEL) == 2


def test_the_outputs_with_steps_are_those_that_are_kept() -> None:
    a, b, c = ports("a", "b", "c")
    with_steps = [each.model_copy(update={"steps": (Step(operator="softmax"),)}) for each in (b, c)]
    plan = steps_of(model_named("identity").model_copy(update={"outputs": (a, *with_steps)}))
    assert [port.name for port in plan.after] == ["b", "c"]
    assert spans_per_query(plan, 4, Level.MODEL) == 4
