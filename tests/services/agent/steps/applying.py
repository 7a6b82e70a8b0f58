"""A step of a manifest, applied."""

from typing import Any

from schemas.manifest import Step
from services.agent.steps import operator_of


def apply(operator: str, value: Any, **parameters: Any) -> Any:
    """Return what an operator makes of a value; it has no label files."""
    step = Step(operator=operator, parameters=parameters)
    return operator_of(step, lambda _: ()).apply(value)
