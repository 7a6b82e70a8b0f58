"""The page that starts evaluations, over HTTP, as a browser without scripts uses it."""

import re
from urllib.parse import urlencode

import httpx
import pytest

from schemas.agent import Announcement, Hardware, Runtime
from schemas.manifest import DatasetManifest, ScenarioManifest, Synthetic
from schemas.request import Refused
from schemas.status import AgentStatus
from tests.stand_ins import StandIns
from tests.stories import AGENT, E, beginning, whole_story

SCENARIOS = (
    ScenarioManifest(
        name="online",
        description="One at a time. Final performance result is: the trimmed mean.",
        parameters={"queries": 50},
    ),
    ScenarioManifest(name="poisson", description="At random.", parameters={"rate_hz": 20}),
)


def an_agent(name: str = AGENT, framework: str = "onnxruntime") -> AgentStatus:
    """Return an agent with one framework."""
    return AgentStatus(
        announcement=Announcement(
            agent=name,
            incarnation="1",
            hardware=Hardware(hostname=name, architecture="x86_64", cores=4),
            runtimes=(Runtime(framework=framework, version="1.31.0"),),
        )
    )


@pytest.fixture
def catalog(standing: StandIns) -> StandIns:
    """Put scenarios, agents and datasets into the catalog."""
    standing.agents = (an_agent(), an_agent("other", "pytorch"))
    standing.catalog = {
        "scenarios": SCENARIOS,
        "datasets": (DatasetManifest(name="noise", synthetic=Synthetic()),),
    }
    return standing


async def start(web: httpx.AsyncClient, **fields: str | list[str]) -> httpx.Response:
    """Send the form as its button Start does."""
    body = urlencode({"action": "start", "nonce": "n", **fields}, doseq=True)
    headers = {"content-type": "application/x-www-form-urlencoded"}
    return await web.post("/new", content=body, headers=headers)


@pytest.mark.usefixtures("catalog")
async def test_an_empty_form_offers_the_catalog(web: httpx.AsyncClient) -> None:
    page = (await web.get("/new")).text
    for text in ('value="tiny"', "onnxruntime (1 agent)", "the trimmed mean.", 'value="noise"'):
        assert text in page
    assert "choose a model" not in page


async def test_a_link_fills_the_form_and_shows_who_would_run_it(
    web: httpx.AsyncClient, catalog: StandIns
) -> None:
    catalog.expected_s = 42.0
    page = (await web.get("/new?model=tiny&scenarios=poisson:rate_hz=5&trace_level=framework")).text
    assert catalog.matched[-1].scenarios[0].parameters == {"rate_hz": 5}
    assert ">rate (Hz)</label>" in page
    assert "1 agent fits" in page
    assert "2 runs in 1 session; at most 20 s by the stop rule" in page
    assert "Expected time, including opening the model: about 42 s" in page
    assert "memory 1.0 GiB, wanted 8.0 GiB" in page
    command = "mlscope run tiny --scenario poisson:rate_hz=5 --trace-level framework"
    assert command in re.sub("<[^>]*>", "", page)
    assert "<span>--trace-level</span>" in page, "lines break between words alone"


async def test_start_leads_to_the_evaluation(web: httpx.AsyncClient, catalog: StandIns) -> None:
    response = await start(web, model="tiny", scenarios="online", **{"online.queries": "7"})
    assert response.status_code == 303
    evaluation = response.headers["location"].removeprefix("/evaluations/")
    status = (await web.get(f"/api/evaluations/{evaluation}")).json()
    assert status["request"]["scenarios"] == [{"name": "online", "parameters": {"queries": 7}}]
    again = await start(web, model="tiny", scenarios="online", **{"online.queries": "7"})
    assert again.headers["location"] == response.headers["location"], "a second click starts it"
    other = await start(web, model="tiny", scenarios="online", **{"online.queries": "8"})
    assert other.headers["location"] != response.headers["location"]


async def test_what_the_form_suggests_starts_with_one_click(
    web: httpx.AsyncClient, catalog: StandIns
) -> None:
    page = (await web.get("/new")).text
    first_button = page[page.index('<button name="action"') :]
    assert first_button.startswith('<button name="action" value="check"'), "Enter starts nothing"
    suggested = re.search(r'name="action" value="start:([^"]+)"', page)
    assert suggested
    response = await start(web, action=f"start:{suggested[1]}", scenarios="online")
    assert response.status_code == 303
    evaluation = response.headers["location"].removeprefix("/evaluations/")
    status = (await web.get(f"/api/evaluations/{evaluation}")).json()
    assert status["request"]["model"] == suggested[1]
    assert "start:" not in (await web.get("/new?model=tiny")).text


async def test_who_sees_an_evaluation_is_chosen_and_kept(
    web: httpx.AsyncClient, catalog: StandIns
) -> None:
    only_owners = '<option value="private" selected>only you and owners</option>'
    page = (await web.get("/new?model=tiny")).text
    assert '<label for="field-visibility">Who sees it</label>' in page
    assert '<option value="cluster">everybody here</option>' in page
    assert only_owners not in page
    assert only_owners in (await web.get("/new?model=tiny&visibility=private")).text
    again = await start(web, model="tiny", visibility="private", batch_sizes="one")
    assert (again.status_code, only_owners in again.text) == (422, True)
    started = await start(web, model="tiny", visibility="private")
    evaluation = started.headers["location"].removeprefix("/evaluations/")
    status = (await web.get(f"/api/evaluations/{evaluation}")).json()
    assert status["visibility"] == "private"
    copy = (await web.get(f"/new?from={evaluation}")).text
    assert only_owners in copy
    assert re.search('name="further"[^>]*></textarea>', copy), "its own field has it"


@pytest.mark.usefixtures("catalog")
async def test_constraints_are_folded_until_one_is_typed(web: httpx.AsyncClient) -> None:
    assert '<details data-keep="constraints">' in (await web.get("/new")).text
    page = (await web.get("/new?interconnect=nvlink")).text
    assert '<details open data-keep="constraints">' in page


async def test_several_models_are_several_evaluations(
    web: httpx.AsyncClient, catalog: StandIns
) -> None:
    response = await start(web, model=["tiny", "large"])
    path, _, ids = response.headers["location"].partition("?runs=")
    assert path == "/compare"
    assert len(set(ids.split(","))) == 2


async def test_what_is_wrong_stands_beside_its_field_and_nothing_typed_is_lost(
    web: httpx.AsyncClient, catalog: StandIns
) -> None:
    response = await start(web, model="tiny", batch_sizes="one", warmup="7", labels="a=<b>")
    assert response.status_code == 422
    assert "is not a list of integers such as 1, 2, 4" in response.text
    assert 'role="alert">Correct <a href="#field-batch_sizes">batch sizes</a>.' in response.text
    for typed in ('value="one"', 'value="7"', "a=&lt;b&gt;", 'value="tiny" checked'):
        assert typed in response.text


async def test_a_refusal_stands_beside_its_field(web: httpx.AsyncClient, catalog: StandIns) -> None:
    catalog.match_refused = Refused(
        error="invalid", message="rate_hz: found 0, allowed: above 0",
        field="scenarios.0.parameters.rate_hz",
    )  # fmt: skip
    response = await start(web, model="tiny", scenarios="poisson", **{"poisson.rate_hz": "0"})
    assert response.status_code == 422
    _, _, tail = response.text.partition('id="field-poisson.rate_hz"')
    assert "allowed: above 0" in tail[:400]
    assert 'aria-invalid="true"' in tail[:200]


async def test_a_check_starts_nothing(web: httpx.AsyncClient, catalog: StandIns) -> None:
    before = (await web.get("/api/evaluations")).json()
    page = await start(web, model="tiny", action="check")
    assert page.status_code == 200
    assert "1 agent fits" in page.text
    assert (await web.get("/api/evaluations")).json() == before


async def test_a_clone_has_the_request_of_another(
    web: httpx.AsyncClient, catalog: StandIns
) -> None:
    await catalog.tell(*whole_story())
    page = (await web.get(f"/new?from={E}")).text
    assert f'A copy of <a href="/evaluations/{E}">' in page
    assert 'value="tiny" checked' in page
    assert (await web.get("/new?from=ffffffffffffffff")).status_code == 404


async def test_another_sites_form_starts_nothing(web: httpx.AsyncClient) -> None:
    headers = {
        "origin": "https://evil.example",
        "content-type": "application/x-www-form-urlencoded",
    }
    response = await web.post("/new", content="model=tiny&action=start", headers=headers)
    assert response.status_code == 403
    assert (await web.post("/new", json={"model": "tiny"})).status_code == 415


async def test_a_form_of_millions_of_fields_is_not_read(web: httpx.AsyncClient) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    response = await web.post("/new", content="action=check" + "&a" * 1_900_000, headers=headers)
    assert response.status_code == 400
    assert "a form of at most 5000 fields" in response.text


async def test_an_evaluation_is_cancelled_on_its_page(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    page = (await web.get(f"/evaluations/{E}")).text
    assert f'action="/evaluations/{E}/cancel"' in page
    assert f'href="/new?from={E}"' in page
    headers = {"content-type": "application/x-www-form-urlencoded"}
    address = f"/evaluations/{E}/cancel"
    evil = {**headers, "origin": "https://evil.example"}
    assert (await web.post(address, content="", headers=evil)).status_code == 403
    assert standing.cancelled == []
    response = await web.post(address, content="reason=enough", headers=headers)
    assert response.headers["location"] == f"/evaluations/{E}"
    assert standing.cancelled == [E]


async def test_a_record_is_not_cancelled(web: httpx.AsyncClient, standing: StandIns) -> None:
    await standing.tell(*whole_story())
    page = (await web.get(f"/evaluations/{E}")).text
    assert "/cancel" not in page
    assert f'href="/evaluations/{E}/report"' in page
