"""Explorations over the bus: the newest of each load, constraints, sizes, and refusals."""

import json
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from mlscope.bus.bus import Bus
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.evaluation import EvaluationRequested
from schemas.exploration import Explored
from schemas.people import THE_USER, Asker
from schemas.request import Evaluate
from schemas.subjects import asked_subject, request_of
from services.analyzer.analysis import Analyzed
from services.analyzer.answering.explorations import fitting
from services.analyzer.exploring import EXPLORATIONS
from services.analyzer.store import Store, migrate
from services.collector import store as collector
from tests.services.analyzer.exploring.loads import a_load
from tests.services.analyzer.test_service import analyzing

EXPLORE = "mlscope.v1.request.explore"


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
async def asked(server: MemoryServer, database_url: str) -> AsyncIterator[Bus]:
    """Lend a bus with an analyzer whose database has three evaluations, the last one the newest."""
    collector.migrate(database_url)
    migrate(database_url)
    told = {
        "e1": [a_load(ms=10), a_load(ms=20, batch_size=4, run="r1")],
        "e2": [a_load("other", agent="a2")],
        "e3": [a_load(ms=30)],
    }
    with closing(Store(database_url)) as store:
        for evaluation, loads in told.items():
            for _ in range(2):
                store.write(evaluation, Analyzed((), "d", {}, summaries=tuple(loads)))
    with psycopg.connect(database_url) as session:
        session.execute(
            "UPDATE headline SET requested_at = '2026-01-01'::timestamptz"
            " + substr(evaluation, 2)::int * interval '1 day'"
        )
    async with connect(server, "gateway") as bus, analyzing(server, database_url):
        yield bus


async def _request(bus: Bus, evaluation: str, visibility: str, requested_by: str = "") -> None:
    """Record a request."""
    request = Evaluate.model_validate({"model": "tiny", "visibility": visibility})
    fact = EvaluationRequested(
        evaluation=evaluation, request=request, requested_ns=1, requested_by=requested_by
    )
    await bus.publish(fact, id=evaluation)


async def _explored(bus: Bus, **fields: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(await bus.ask(EXPLORE, json.dumps(fields).encode()))
    return told


def _evaluations(told: dict[str, Any]) -> list[str]:
    names = [column["name"] for column in told["table"]["columns"]]
    return sorted(row[names.index("evaluation")] for row in told["table"]["rows"])


async def test_each_load_counts_where_it_was_measured_last(asked: Bus) -> None:
    told = await _explored(asked, table="systems")
    assert _evaluations(told) == ["e1", "e2", "e3"]
    assert (told["loads"], told["total_loads"], told["total_rows"]) == (3, 3, 3)


async def test_a_history_has_every_measurement(asked: Bus) -> None:
    told = await _explored(asked, table="history", model="tiny:1.0.0")
    assert _evaluations(told) == ["e1", "e1", "e3"]
    assert "became slower by 3% or more with intervals that do not" in told["table"]["verdict"]
    assert "2026-01-04" in told["table"]["verdict"]


async def test_a_model_of_a_request_is_drawn_beside_the_published_one(
    asked: Bus, database_url: str
) -> None:
    own_version = "1.0.0+4f8a12345678"
    forged = a_load(ms=1, model_version=own_version)
    with closing(Store(database_url)) as store:
        store.write("e9", Analyzed((), "d", {}, summaries=(forged,)))
    for table in ("systems", "history"):
        rows = await _models(asked, table=table, agent="a1")
        assert ("tiny", "e3") in rows, "it is the newest of the published one"
        assert [model for model, evaluation in rows if evaluation == "e9"] == [
            f"tiny:{own_version}"
        ]
    for model, evaluations in ((f"tiny:{own_version}", {"e9"}), ("tiny:1.0.0", {"e1", "e3"})):
        told = await _explored(asked, table="systems", model=model)
        assert set(_evaluations(told)) == evaluations


async def _models(bus: Bus, **fields: Any) -> list[tuple[str, str]]:
    """Return model and evaluation of each row of an exploration."""
    table = (await _explored(bus, **fields))["table"]
    names = [column["name"] for column in table["columns"]]
    model, evaluation = names.index("model"), names.index("evaluation")
    return [(row[model], row[evaluation]) for row in table["rows"]]


async def test_constraints_leave_loads_out_and_prices_cost(asked: Bus) -> None:
    told = await _explored(asked, table="cost", agent="a2", prices={"a2": 3.6})
    assert _evaluations(told) == ["e2"]
    assert (await _explored(asked, table="systems", model="none"))["table"]["rows"] == []


async def test_private_evaluations_count_for_who_may_see_them(asked: Bus) -> None:
    await _request(asked, "e1", "cluster", "ada")
    await _request(asked, "e3", "private", "ada")
    await _request(asked, "e2", "private")
    for asker, systems, history, agents in (
        (Asker("ada", "requester"), ["e1", "e3"], ["e1", "e1", "e3"], 1),
        (Asker("bob", "viewer"), ["e1", "e1"], ["e1", "e1"], 1),
        (Asker("olga", "owner"), ["e1", "e2", "e3"], ["e1", "e1", "e2", "e3"], 2),
    ):
        subject = asked_subject(asker, "explore")
        for table, expected in (("systems", systems), ("history", history)):
            body = json.dumps({"table": table}).encode()
            answered = json.loads(await asked.ask(subject, body))
            assert _evaluations(answered) == expected
            assert answered["total_loads"] == len(expected)
        choices = json.loads(await asked.ask(subject, b"{}"))["choices"]
        assert len(choices["agent"]) == agents


async def test_only_owners_explore_what_the_log_lacks_or_cannot_be_read(
    asked: Bus, server: MemoryServer
) -> None:
    """It may be private. The log lacks e2, and the request of e3 is damaged."""
    await _request(asked, "e1", "cluster", "ada")
    server.send(request_of("e3"), b"damaged")
    visible, everything = {"e1"}, {"e1", "e2", "e3"}
    for asker, expected, newest, measurements in (
        (Asker("ada", "requester"), visible, 2, 2),
        (Asker("bob", "viewer"), visible, 2, 2),
        (Asker("olga", "owner"), everything, 3, 4),
        (THE_USER, everything, 3, 4),
    ):
        subject = asked_subject(asker, "explore") if asker.name else EXPLORE
        choices = json.loads(await asked.ask(subject, b"{}"))["choices"]
        assert choices["model"] == (["tiny"] if expected == visible else ["other", "tiny"])
        for table in ("", *(exploration.name for exploration in EXPLORATIONS)):
            answer = json.loads(await asked.ask(subject, json.dumps({"table": table}).encode()))
            assert answer["total_loads"] == (measurements if table == "history" else newest), table
            if table in ("systems", "history"):
                assert set(_evaluations(answer)) == expected, table


async def test_without_a_table_there_is_what_to_choose_from(asked: Bus) -> None:
    told = await _explored(asked)
    assert told["table"] is None
    assert [name for name, _ in told["tables"]] == [each.name for each in EXPLORATIONS]
    assert told["choices"]["model"] == ["other", "tiny"]
    assert told["choices"]["agent"] == ["a1", "a2"]
    assert told["total_loads"] == 3


async def test_an_unknown_exploration_is_refused_with_all_names(asked: Bus) -> None:
    told = await _explored(asked, table="system")
    assert (told["error"], told["field"]) == ("unknown", "table")
    assert "batch_speedup" in told["allowed"]
    told = await _explored(asked, table="cost", prices={"a1": -1})
    assert (told["error"], told["field"]) == ("malformed", "prices.a1")


@pytest.mark.parametrize("json_text", [True, False])
def test_what_does_not_fit_is_cut_and_said(json_text: bool) -> None:
    systems = next(each for each in EXPLORATIONS if each.name == "systems")
    table = systems.compute([a_load(f"m{n}") for n in range(500)], {})
    body = fitting(Explored(table=table, total_rows=500), 20_000, json_text=json_text)
    assert len(body) <= 20_000
    assert b"the table has the first" in body
