"""Load: when queries are due, which samples they carry, and issuing them on time.

Owns: arrivals, scenarios, pacing. Does not know: models, frameworks, messages, services.
Scenario functions are pure; only `pacing`, `pacer`, `issuing` and `time_limit` read the clock.
"""

from mlscope.load.errors import (
    InvalidParameter,
    LoadError,
    PacerDied,
    ScenarioError,
    UnknownParameter,
    UnknownScenario,
)
from mlscope.load.load import Load
from mlscope.load.scenarios import scenario_named, scenario_names

__all__ = [
    "InvalidParameter",
    "Load",
    "LoadError",
    "PacerDied",
    "ScenarioError",
    "UnknownParameter",
    "UnknownScenario",
    "scenario_named",
    "scenario_names",
]
