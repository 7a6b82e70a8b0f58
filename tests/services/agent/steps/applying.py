"""A step of a manifest, applied."""

from collections.abc import Sequence
from typing import Any

from schemas.manifest import Step
from services.agent.steps import Operator, operator_of


def made(operator: str, lines: Sequence[str] = (), **parameters: Any) -> Operator:
    """Return an operator; each of its files has these lines."""
    step = Step(operator=operator, parameters=parameters)
    return operator_of(step, lambda _: tuple(lines))


def apply(operator: str, value: Any, /, **parameters: Any) -> Any:
    """Return what an operator makes of a value; it has no label files."""
    return made(operator, **parameters).apply(value)
