"""Downloads of an evaluation: its facts, its reference log, the model's answers."""

import json

import httpx
import pytest
import yaml

from mlscope.bus.bus import Bus
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.analysis import Flow, Prediction, Predictions
from schemas.request import Refused, ShowFlow, ShowPredictions
from schemas.status import AgentStatus
from tests.mlscope.client.answers import answering
from tests.mlscope.reproducing.reference_logs import a_status, an_announcement
from tests.services.gateway.conftest import web_over
from tests.stand_ins import StandIns
from tests.stories import E

API = f"/api/evaluations/{E}"


async def test_facts_are_a_file_with_one_in_a_line(
    server: MemoryServer, web: httpx.AsyncClient
) -> None:
    facts = tuple({"schema": f"fact {number}"} for number in range(5))

    def page(asked: ShowFlow) -> Flow:
        some = facts[asked.offset : asked.offset + 2]
        return Flow(evaluation=E, facts=some, more=asked.offset + 2 < len(facts))

    async with connect(server, "analyzer") as analyzer:
        await answering(analyzer, ShowFlow, page)
        answer = await web.get(f"{API}/exports/flow")
    assert answer.headers["content-disposition"] == f'attachment; filename="{E}.flow.jsonl"'
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert tuple(map(json.loads, answer.text.splitlines())) == facts


async def with_log(server: MemoryServer, standing: StandIns, state: str) -> httpx.Response:
    """Return the reference log of an evaluation in a state."""
    status = a_status(state).model_copy(update={"tables": ("latency",)})
    standing.status_answer = status.model_dump(mode="json")
    standing.agents = (AgentStatus(announcement=an_announcement(), state="live"),)
    said = Predictions(
        evaluation=E, predictions=(Prediction(run="r0", query=0, sample=0),), total=1
    )
    async with connect(server, "analyzer") as analyzer, connect(server, "gateway") as bus:
        await answering(analyzer, ShowPredictions, lambda _: said)
        async with web_over(bus) as web:
            return await web.get(f"{API}/exports/log")


async def test_a_reference_log_is_a_file_that_can_be_repeated(
    server: MemoryServer, standing: StandIns
) -> None:
    answer = await with_log(server, standing, "analyzed")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="{E}.log.yml"'
    log = yaml.safe_load(answer.text)
    assert (log["evaluation"], log["request"]["model"]["name"]) == ("e1", "tiny")


async def test_an_evaluation_that_was_not_measured_has_no_reference_log(
    server: MemoryServer, standing: StandIns
) -> None:
    answer = await with_log(server, standing, "running")
    refused = Refused.model_validate(answer.json())
    assert (answer.status_code, refused.error, refused.field) == (409, "conflict", "evaluation")
    assert "running" in refused.message


async def test_answers_are_listed_as_far_as_they_are_asked_for(
    server: MemoryServer, web: httpx.AsyncClient
) -> None:
    said = Predictions(evaluation=E, predictions=(), total=0)
    async with connect(server, "analyzer") as analyzer:
        asked = await answering(analyzer, ShowPredictions, lambda _: said)
        answer = await web.get(f"{API}/predictions", params={"run": "r0", "limit": 3})
    assert answer.json()["total"] == 0
    assert asked == [ShowPredictions(evaluation=E, run="r0", limit=3)]


@pytest.mark.usefixtures("standing")
@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ("most=3", "most", "run, offset, limit"),
        ("limit=many", "limit", "integer"),
        ("offset=-1", "offset", "0"),
    ],
)
async def test_a_parameter_of_answers_that_is_wrong_is_named(
    bus: Bus, query: str, field: str, said: str
) -> None:
    async with web_over(bus) as web:
        answer = await web.get(f"{API}/predictions?{query}")
    refused = Refused.model_validate(answer.json())
    assert (answer.status_code, refused.error, refused.field) == (400, "malformed", field)
    assert said in refused.allowed


@pytest.mark.parametrize("export", ["flow", "log"])
async def test_a_download_without_a_service_is_refused_for_now(bus: Bus, export: str) -> None:
    async with web_over(bus) as web:
        answer = await web.get(f"{API}/exports/{export}")
    refused = Refused.model_validate(answer.json())
    assert (answer.status_code, refused.error) == (503, "unavailable")
    assert "`mlscope status` shows which services run" in refused.message
