"""Scenarios as the command line writes them: `poisson:rate_hz=20,queries=100`."""

from collections.abc import Mapping
from typing import Any

from mlscope.client.errors import EvaluationRefused, NoScenario
from mlscope.yaml.values import yaml_value
from schemas.request import Refused


def with_scenarios(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request, its scenarios that are texts as maps.

    Raises EvaluationRefused for a text that is no scenario.
    """
    scenarios = fields.get("scenarios")
    if isinstance(scenarios, str):
        scenarios = [scenarios]
    if not isinstance(scenarios, list | tuple):
        return dict(fields)
    try:
        choices = [scenario_in(own) if isinstance(own, str) else own for own in scenarios]
    except NoScenario as error:
        form = "NAME or NAME:KEY=VALUE,…"
        message = f"scenarios: {error}; allowed: {form}"
        refused = Refused(
            error="invalid", message=message, field="scenarios", found=error.text, allowed=form
        )
        raise EvaluationRefused(refused) from None
    return {**fields, "scenarios": choices}


def scenario_in(text: str) -> dict[str, Any]:
    """Return the scenario in `name:k=v,k=v`; values are YAML. Raises NoScenario."""
    name, _, parameters = text.partition(":")
    values: dict[str, Any] = {}
    for part in filter(None, parameters.split(",")):
        key, equals, value = part.partition("=")
        try:
            values[key] = yaml_value(value)
        except ValueError:
            equals = ""
        if not key or not equals:
            raise NoScenario(text, part)
    return {"name": name, "parameters": values}
