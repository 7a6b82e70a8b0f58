"""Facts and readings as events for a page: pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mlscope.bus.bus import Recorded
from mlscope.client.meter import Reading
from schemas.evaluation import EvaluationCancelled, EvaluationMeasured, EvaluationPlanned
from schemas.message import Fact
from schemas.status import EvaluationStatus
from services.gateway.viewer import Event, Tick

_CHANGE_ALL_RUNS = (EvaluationPlanned, EvaluationMeasured, EvaluationCancelled)


def event_of(recorded: Recorded, status: EvaluationStatus) -> Event:
    """Return what a fact did: `run` for one run, `state` for the evaluation."""
    fact = recorded.fact
    run = getattr(fact, "run", None)
    told = {"happened": fact.schema_name(), "state": status.state}
    if run is not None:
        rows = [each.model_dump(mode="json") for each in status.runs if each.run == run]
        return Event("run", _line({**told, "runs": rows}), recorded.sequence)
    return Event("state", _line({**told, **_state(fact, status)}), recorded.sequence)


def _state(fact: Fact, status: EvaluationStatus) -> dict[str, Any]:
    parts = {"model", "framework", "device", "cause", "agents", "tables", "refusals"}
    if isinstance(fact, _CHANGE_ALL_RUNS):
        parts.add("runs")
    return status.model_dump(mode="json", include=parts)


def tick_of(number: int, readings: Mapping[str, Reading]) -> Tick:
    """Return the readings as columns, one row a run."""
    rows: Sequence[Reading] = list(readings.values())
    columns = {
        "tick": number,
        "run": [row.run for row in rows],
        "attempt": [row.attempt for row in rows],
        "answered": [row.answered for row in rows],
        "failed": [row.failed for row in rows],
        "spans": [row.spans for row in rows],
        "p50_ns": [row.p50_ns for row in rows],
        "p99_ns": [row.p99_ns for row in rows],
    }
    return Tick(number, _line(columns))


def end_of(status: EvaluationStatus) -> Event:
    """Return the last event: nothing more will come, do not reconnect."""
    return Event("end", _line({"state": status.state}))


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
