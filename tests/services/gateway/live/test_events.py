"""Facts and readings as events: a run's with its row, the evaluation's with what changed."""

import json
from typing import Any

from mlscope.bus.records import Recorded
from mlscope.client.meter import Reading
from mlscope.evaluation.fold import EvaluationRecord, evolve, fold
from mlscope.evaluation.status import status_of
from schemas.message import Envelope, Fact
from services.gateway.live.events import Event, end_of, event_of, tick_of
from tests.stories import a_run, beginning, ending


def _told(*facts: Fact) -> list[tuple[Event, dict[str, Any]]]:
    record, events = EvaluationRecord(), []
    for sequence, fact in enumerate(facts, start=1):
        record = evolve(record, fact)
        envelope = Envelope.around(fact, id=f"i{sequence}", cause="c", time_ns=0)
        recorded = Recorded(subject="s", sequence=sequence, envelope=envelope, fact=fact)
        event = event_of(recorded, record)
        events.append((event, json.loads(event.data)))
    return events


def test_a_runs_fact_brings_that_runs_row() -> None:
    event, told = _told(*beginning(), a_run("r1")[0])[-1]
    assert (event.name, event.sequence) == ("run", 3)
    assert [row["run"] for row in told["runs"]] == ["r1"]
    assert told["happened"].endswith("started")


def test_the_plan_brings_every_row_and_a_request_none() -> None:
    (_, requested), (planning, planned) = _told(*beginning())
    assert "runs" not in requested
    assert (planning.name, [row["run"] for row in planned["runs"]]) == ("state", ["r0", "r1"])


def test_the_last_event_says_how_it_ended() -> None:
    record = fold([*beginning(), *a_run("r0"), *a_run("r1"), *ending()])
    event = end_of(status_of(record))
    assert (event.name, event.sequence, json.loads(event.data)) == ("end", 0, {"state": "analyzed"})


def test_a_tick_has_a_row_a_run() -> None:
    readings = {name: Reading(name, 1, n, 0, 3 * n, 5, 9) for n, name in enumerate(("r0", "r1"))}
    tick = tick_of(4, readings)
    told = json.loads(tick.data)
    assert (tick.number, told["tick"], told["run"]) == (4, 4, ["r0", "r1"])
    assert {len(column) for name, column in told.items() if name != "tick"} == {2}
    assert "\n" not in tick.data


def test_a_histogram_and_its_slowest_queries_come_when_they_changed() -> None:
    before = {"r0": Reading("r0", 1, 1, 0, 0, 5, 9, histogram={8: 1}, slowest={8: 3})}
    after = {"r0": Reading("r0", 1, 2, 0, 0, 5, 9, histogram={8: 1, 9: 1}, slowest={9: 4, 8: 3})}
    told = json.loads(tick_of(1, after, before).data)
    assert (told["histogram"], told["slowest"]) == ([[8, 1, 9, 1]], [[3, 4]])
    told = json.loads(tick_of(2, after, after).data)
    assert (told["histogram"], told["slowest"]) == ([None], [None])
