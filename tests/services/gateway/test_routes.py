"""REST and pages over a memory bus: what is asked, answered and refused."""

import io
import re
from collections.abc import Callable

import httpx
import jsonschema  # type: ignore[import-untyped]
import polars as pl
import pytest

from mlscope.bus.bus import Bus
from mlscope.settings import Settings
from tests.services.gateway.conftest import web_over
from tests.stand_ins import StandIns
from tests.stories import E, beginning, whole_story

JSON = {"Content-Type": "application/json"}


async def test_a_request_is_accepted_with_its_place(web: httpx.AsyncClient) -> None:
    response = await web.post("/api/evaluations", json={"model": "tiny", "batch_sizes": [1, 2]})
    assert response.status_code == 201
    place = response.headers["location"]
    assert place == f"/api/evaluations/{response.json()['evaluation']}"
    assert (await web.get(place)).json()["request"]["batch_sizes"] == [1, 2]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", ""),
        (b"[1]", ""),
        (b'"text"', ""),
        (b"{}", "model"),
        (b'{"model": "tiny", "batch_sizes": [0]}', "batch_sizes"),
        (b'{"model": "tiny", "colour": 1}', "colour"),
    ],
)
async def test_wrong_json_names_its_field(web: httpx.AsyncClient, body: bytes, field: str) -> None:
    response = await web.post("/api/evaluations", content=body, headers=JSON)
    assert response.status_code == 400
    assert response.json()["accepted"] is False
    assert response.json()["field"] == field


@pytest.mark.parametrize(("model", "status"), [("unknown-model", 422), ("too-large", 409)])
async def test_refusals_keep_their_reasons(web: httpx.AsyncClient, model: str, status: int) -> None:
    response = await web.post("/api/evaluations", json={"model": model})
    assert response.status_code == status
    assert response.json()["message"]
    if status == 409:
        assert response.json()["agents"] == [{"agent": "a1", "reason": "too little memory"}]


async def test_an_unknown_evaluation_is_not_found(web: httpx.AsyncClient) -> None:
    for path in (f"/api/evaluations/{E}", f"/evaluations/{E}", f"/api/evaluations/{E}/events"):
        assert (await web.get(path)).status_code == 404, path


async def test_a_path_is_no_subject(web: httpx.AsyncClient) -> None:
    response = await web.get("/api/evaluations/a.*.>")
    assert response.status_code == 400
    assert response.json()["field"] == "evaluation"


async def test_without_a_scheduler_the_log_tells(bus: Bus) -> None:
    await StandIns(bus).tell(*whole_story())
    async with web_over(bus) as web:
        assert (await web.get(f"/api/evaluations/{E}")).json()["state"] == "analyzed"
        assert (await web.get("/api/evaluations")).status_code == 503


async def test_cancelling_reaches_the_scheduler(web: httpx.AsyncClient, standing: StandIns) -> None:
    assert (await web.delete(f"/api/evaluations/{E}")).status_code == 202
    assert standing.cancelled == [E]


async def test_a_table_comes_as_json_and_csv(web: httpx.AsyncClient) -> None:
    place = f"/api/evaluations/{E}/tables/latency"
    assert (await web.get(place)).json()["rows"] == [["r0", 5e6], ["r1", None]]
    by_suffix = await web.get(f"{place}.csv")
    by_accept = await web.get(place, headers={"Accept": "text/csv"})
    by_name = await web.get(f"{place}?format=csv")
    assert (
        by_name.text == by_suffix.text == by_accept.text == "run,p50\r\nr0,5000000.0\r\nr1,nan\r\n"
    )
    assert (await web.get(f"/api/evaluations/{E}/tables/none")).status_code == 404


@pytest.mark.parametrize("form", [".xlsx", "?format=xlsx"])
async def test_a_form_that_no_table_has_is_refused(web: httpx.AsyncClient, form: str) -> None:
    answer = await web.get(f"/api/evaluations/{E}/tables/latency{form}")
    assert answer.status_code == 400
    assert (answer.json()["found"], answer.json()["allowed"]) == (
        "xlsx", "json, csv, parquet, arrow, md",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ("/tables?format=csv", "format"),
        ("/analyses?format=csv", "format"),
        ("?sort=p50", "sort"),
        ("/tables/latency?fromat=csv", "fromat"),
        ("/tables/latency.csv?format=json", "format"),
    ],
)
async def test_what_a_place_does_not_give_is_refused(
    web: httpx.AsyncClient, standing: StandIns, place: str, field: str
) -> None:
    await standing.tell(*whole_story())
    response = await web.get(f"/api/evaluations/{E}{place}")
    assert (response.status_code, response.json()["field"]) == (400, field)


async def test_figures_are_asked_for_by_address(web: httpx.AsyncClient, standing: StandIns) -> None:
    query = "evaluation=e1&evaluation=e2&evaluation=e3&price=a=3.06"
    told = (await web.get(f"/api/compare?{query}")).json()
    assert (told["others"], told["tables"][0]["name"]) == (["e3"], "latency")
    assert standing.compared[0].prices == {"a": 3.06}
    assert (await web.get("/api/compare?evaluation=e1")).status_code == 400


async def test_analyses_say_what_they_found_without_rows(web: httpx.AsyncClient) -> None:
    told = (await web.get(f"/api/evaluations/{E}/analyses")).json()["analyses"]
    assert [(each["name"], each["rows"], each["chart"]) for each in told] == [("latency", 2, None)]
    assert [column["name"] for column in told[0]["columns"]] == ["run", "p50"]


@pytest.mark.parametrize(("suffix", "read"), [("parquet", pl.read_parquet), ("arrow", pl.read_ipc)])
async def test_a_table_comes_as_a_typed_file(
    web: httpx.AsyncClient, suffix: str, read: Callable[[io.BytesIO], pl.DataFrame]
) -> None:
    response = await web.get(f"/api/evaluations/{E}/tables/latency.{suffix}")
    assert f"latency.{suffix}" in response.headers["content-disposition"]
    frame = read(io.BytesIO(response.content))
    assert frame.schema == {"run": pl.String, "p50": pl.Float64}
    assert frame["run"].to_list() == ["r0", "r1"]
    document = (await web.get("/api/openapi.json")).json()
    described = document["paths"]["/api/evaluations/{evaluation}/tables/{table}"]["get"]
    assert response.headers["content-type"] in described["responses"]["200"]["content"]


async def test_files_hold_every_row_and_the_page_says_when_it_does_not(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    standing.most_rows = 1
    assert len((await web.get(f"/api/evaluations/{E}/tables/latency")).json()["rows"]) == 2
    assert len((await web.get(f"/api/evaluations/{E}/tables")).json()["tables"][0]["rows"]) == 2
    page = (await web.get(f"/evaluations/{E}")).text
    assert "The first 1 of 2 rows of " in page


async def test_the_openapi_document_describes_what_is_answered(web: httpx.AsyncClient) -> None:
    document = (await web.get("/api/openapi.json")).json()
    catalog = (await web.get("/api/catalog")).json()
    schema = {"$ref": "#/components/schemas/Catalog", "components": document["components"]}
    jsonschema.validate(catalog, schema)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/evaluations", "GET, HEAD, POST"),
        (f"/api/evaluations/{E}", "DELETE, GET, HEAD"),
        ("/evaluations", "GET, HEAD"),
    ],
)
async def test_another_method_is_refused_with_those_there_are(
    web: httpx.AsyncClient, path: str, allowed: str
) -> None:
    response = await web.put(path, json={})
    assert response.status_code == 405
    assert response.headers["allow"] == allowed
    assert response.json()["allowed"] == allowed
    assert response.json()["found"] == "PUT"
    assert response.json()["accepted"] is False


async def test_a_misspelt_field_is_named_with_the_one_that_was_meant(
    web: httpx.AsyncClient,
) -> None:
    answer = (await web.post("/api/evaluations", json={"modle": "tiny"})).json()
    assert answer["field"] == "modle"
    assert "unknown field modle; did you mean model?" in answer["message"]


async def test_the_page_tells_runs_tables_and_escapes(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    page = (await web.get(f"/evaluations/{E}")).text
    assert 'data-run="r1"' in page
    assert "Half of the queries took 5 ms." in page
    assert f'href="/evaluations/{E}/analyses/latency"' in page
    table = (await web.get(f"/evaluations/{E}/analyses/latency")).text
    for suffix in (".csv", ".parquet", ".arrow", ".md", ""):
        assert f'/tables/latency{suffix}"' in table
    assert 'data-live="no"' in page
    assert (await web.get(f"/evaluations/{E}<script>")).text.count("<script>") == 0


async def test_pages_load_nothing_from_elsewhere(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    response = await web.get(f"/evaluations/{E}")
    assert "default-src 'self'" in response.headers["content-security-policy"]
    assert "http" not in response.text.replace("http-equiv", "")
    addresses = re.findall(r'(?:href|src)="(/static/[^"]+)"', response.text)
    assert any(address.endswith("js/evaluation/page.js") for address in addresses)
    for address in addresses:
        assert (await web.get(address)).status_code == 200


async def test_a_page_that_is_not_there_says_so(web: httpx.AsyncClient) -> None:
    response = await web.get("/nowhere")
    assert response.status_code == 404
    assert "/api/openapi.json" in response.text


async def test_a_large_body_is_refused(web: httpx.AsyncClient) -> None:
    body = b'{"model": "' + b"x" * Settings().max_request_bytes + b'"}'
    response = await web.post("/api/evaluations", content=body, headers=JSON)
    assert response.status_code == 413
