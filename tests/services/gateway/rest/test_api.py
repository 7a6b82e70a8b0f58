"""REST: queries narrow, wrong ones name their field, a known key makes no second evaluation."""

import httpx
import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import encode_body
from schemas.request import Accepted, Refused
from schemas.subjects import REQUEST
from tests.services.gateway.conftest import web_over
from tests.stand_ins import StandIns
from tests.stories import E, whole_story


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/evaluations?limit=none", "limit"),
        ("/api/evaluations?colour=red", "colour"),
        ("/api/evaluations?offset=99999999999999999999999", "offset"),
        ("/api/catalog?kind=spoon", "kind"),
    ],
)
async def test_a_wrong_query_names_its_field(web: httpx.AsyncClient, path: str, field: str) -> None:
    response = await web.get(path)
    assert response.status_code == 400
    assert response.json()["field"] == field


async def test_a_reason_as_long_as_a_book_is_refused(web: httpx.AsyncClient) -> None:
    response = await web.delete(f"/api/evaluations/{E}", params={"reason": "x" * 10_001})
    assert (response.status_code, response.json()["field"]) == (400, "reason")


@pytest.mark.usefixtures("standing")
@pytest.mark.parametrize(
    "path",
    [
        "/models/{}/1",
        "/datasets/{}/1",
        "/api/models/{}/frameworks",
        f"/api/evaluations/{E}/tables/{{}}",
    ],
)
async def test_a_name_that_nothing_can_have_is_refused(web: httpx.AsyncClient, path: str) -> None:
    assert 400 <= (await web.get(path.format("x" * 600))).status_code < 500


async def test_an_empty_query_is_none(web: httpx.AsyncClient) -> None:
    assert (await web.get("/api/evaluations?model=&state=")).status_code == 200


async def test_a_known_key_is_no_new_evaluation(server: MemoryServer, bus: Bus) -> None:
    async def repeated(_: ReceivedCommand) -> bytes:
        return encode_body(Accepted(evaluation=E, repeated=True))

    async with connect(server, "scheduler") as scheduler, web_over(bus) as web:
        await scheduler.answer(f"{REQUEST}.evaluate", repeated, queue="scheduler")
        response = await web.post("/api/evaluations", json={"model": "tiny", "key": "k"})
    assert response.status_code == 200
    assert response.headers["location"] == f"/api/evaluations/{E}"


async def test_match_answers_before_anything_is_sent(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    response = await web.post("/api/match", json={"model": "tiny", "batch_sizes": [1, 2]})
    assert response.status_code == 200
    assert response.json()["runs"] == 2
    assert [request.batch_sizes for request in standing.matched] == [(1, 2)]
    refused = await web.post("/api/match", json={"model": "tiny", "batch_sizes": [0]})
    assert (refused.status_code, refused.json()["field"]) == (400, "batch_sizes")


async def test_an_ended_evaluations_events_end(web: httpx.AsyncClient, standing: StandIns) -> None:
    await standing.tell(*whole_story())
    response = await web.get(f"/api/evaluations/{E}/events")
    assert response.text.rstrip().endswith('data: {"state":"analyzed"}')


@pytest.mark.parametrize("path", ["/api/evaluations/{}", "/api/evaluations/{}/tables"])
async def test_an_id_may_be_shortened(
    web: httpx.AsyncClient, standing: StandIns, path: str
) -> None:
    await standing.tell(*whole_story())
    short, whole = [await web.get(path.format(text)) for text in (E[:6], E)]
    assert (short.status_code, short.json()) == (200, whole.json())
    assert (await web.get(f"/evaluations/{E[:4]}")).status_code == 200
    assert (await web.get("/api/evaluations/fedcba")).status_code == 404


async def test_a_short_id_of_several_is_refused(web: httpx.AsyncClient, standing: StandIns) -> None:
    second = f"{E[:8]}00000000"
    await standing.tell(*whole_story(), *whole_story(second))
    refused = await web.delete(f"/api/evaluations/{E[:8]}")
    assert refused.status_code == 404
    assert f"2 evaluations begin with {E[:8]}" in refused.json()["message"]
    assert standing.cancelled == []


async def test_a_table_nobody_knows_lists_those_there_are(web: httpx.AsyncClient) -> None:
    response = await web.get(f"/api/evaluations/{E}/tables/spoons.csv")
    assert response.status_code == 404
    assert "spoons" in response.json()["message"]


@pytest.mark.parametrize("text", ["a.b", "*", ">", "x" * 65])
async def test_an_evaluation_is_a_token(web: httpx.AsyncClient, text: str) -> None:
    response = await web.get(f"/api/evaluations/{text}/tables")
    assert (response.status_code, response.json()["field"]) == (400, "evaluation")


async def test_the_catalog_is_the_same_in_either_encoding(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    passed_on = await web.get("/api/catalog")
    standing.answers_json = False
    read = await web.get("/api/catalog")
    assert passed_on.json() == read.json()
    assert passed_on.headers["content-type"] == read.headers["content-type"]


async def test_a_refused_catalog_has_its_status_code(server: MemoryServer, bus: Bus) -> None:
    async def refused(_: ReceivedCommand) -> bytes:
        refusal = Refused(error="invalid", message="no constraint", field="version")
        return encode_body(refusal, json_text=True)

    async with connect(server, "registry") as registry, web_over(bus) as web:
        await registry.answer(f"{REQUEST}.catalog", refused, queue="registry")
        response = await web.get("/api/catalog?version=x")
    assert (response.status_code, response.json()["field"]) == (400, "version")
