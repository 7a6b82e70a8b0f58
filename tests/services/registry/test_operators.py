"""What a manifest's steps may say is what the agent's steps can do."""

from typing import Any

import pytest

from schemas.manifest import Step
from schemas.manifest.operators import OPERATORS
from services.agent.steps import OPERATOR_FACTORIES
from services.agent.steps.parameters import Parameters

NEEDED: dict[str, dict[str, Any]] = {
    **{name: {"dimensions": [8, 8]} for name in ("resize", "crop", "pad")},
    **{name: {"scores": "scores"} for name in ("boxes", "masks")},
    "tokenize": {"vocabulary": "vocabulary.txt"},
    "answer_span": {"end": "ends", "vocabulary": "vocabulary.txt"},
    "ctc": {"labels": "alphabet.txt"},
}

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def test_operators_are_those_of_the_agent() -> None:
    assert set(OPERATORS) == set(OPERATOR_FACTORIES)


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_parameters_are_those_the_agent_reads(operator: str) -> None:
    step = Step(operator=operator, parameters=NEEDED.get(operator, {}))
    parameters = Parameters(operator, step.parameters, lambda _: SPECIAL)
    OPERATOR_FACTORIES[operator](parameters)
    assert set(parameters.read_names) <= set(OPERATORS[operator])
