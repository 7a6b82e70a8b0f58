"""Facts and readings as events for a page. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from mlscope.bus.records import Recorded
from mlscope.client.meter import Reading
from mlscope.evaluation.fold import EvaluationRecord
from mlscope.evaluation.status import run_status_of, status_of
from schemas.evaluation import EvaluationCancelled, EvaluationMeasured, EvaluationPlanned
from schemas.status import EvaluationStatus

_COLUMNS = (
    "run",
    "attempt",
    "answered",
    "failed",
    "spans",
    "samples",
    "busy_ns",
    "until_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "unheard",
    "cpu_cores",
    "gpu_share",
    "power_w",
)
_CHANGE_ALL_RUNS = (EvaluationPlanned, EvaluationMeasured, EvaluationCancelled)


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event; without `sequence` or `identity` a client cannot resume from it."""

    name: str
    data: str
    sequence: int = 0
    identity: str = ""

    def encoded(self) -> bytes:
        """Return the bytes of the event; `data` is one line of JSON."""
        identity = self.identity or self.sequence
        head = f"id: {identity}\n" if identity else ""
        return f"{head}event: {self.name}\ndata: {self.data}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Tick:
    """The progress of 100 ms; `number` counts ticks, so that a gap can be named."""

    number: int
    data: str


def event_of(recorded: Recorded, record: EvaluationRecord) -> Event:
    """Return the event of a fact: `run` for a fact of one run, `state` for one of the evaluation.

    `record` is the evaluation's record after the fact.
    """
    fact = recorded.fact
    content: dict[str, Any] = {
        "happened": fact.schema_name(),
        "time_ns": recorded.envelope.time_ns,
        "state": record.state,
    }
    if hasattr(fact, "run"):
        run = record.runs.get(fact.run)
        rows = [] if run is None else [run_status_of(run).model_dump(mode="json")]
        return Event("run", _json_line({**content, "runs": rows}), recorded.sequence)
    if record.is_known:
        fields = {"model", "framework", "device", "cause", "agents", "tables", "refusals"}
        if isinstance(fact, _CHANGE_ALL_RUNS):
            fields.add("runs")
        content |= status_of(record).model_dump(mode="json", include=fields)
    return Event("state", _json_line(content), recorded.sequence)


def tick_of(
    number: int, readings: Mapping[str, Reading], before: Mapping[str, Reading] | None = None
) -> Tick:
    """Return the readings of all runs as columns; `number` is the tick's.

    A histogram is a list of buckets and counts in turn, and `slowest` has the number of the slowest
    query of each of these buckets; both are null where they are those of the tick `before`.
    """
    rows = list(readings.values())
    earlier = before or {}
    columns: dict[str, Any] = {"tick": number}
    for name in _COLUMNS:
        columns[name] = [getattr(row, name) for row in rows]
    news = [row.run not in earlier or earlier[row.run].histogram != row.histogram for row in rows]
    columns["histogram"] = [
        list(chain.from_iterable(row.histogram.items())) if is_new else None
        for row, is_new in zip(rows, news, strict=True)
    ]
    columns["slowest"] = [
        [row.slowest.get(bucket, -1) for bucket in row.histogram] if is_new else None
        for row, is_new in zip(rows, news, strict=True)
    ]
    return Tick(number, _json_line(columns))


def end_of(status: EvaluationStatus) -> Event:
    """Return the last event, after which the client does not reconnect."""
    return Event("end", _json_line({"state": status.state}))


def _json_line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
