"""The page that compares evaluations, over HTTP."""

import httpx

from tests.stand_ins import StandIns
from tests.stories import LATENCY, E, whole_story

OTHER = "fedcba9876543210"


async def test_two_evaluations_are_compared(web: httpx.AsyncClient, standing: StandIns) -> None:
    await standing.tell(*whole_story(), *whole_story(OTHER))
    page = await web.get(f"/compare?runs={OTHER},{E}&price.a1=0.5&latency_ms=2")
    assert page.status_code == 200
    command = standing.compared[-1]
    assert (command.first, command.second, command.figures) == (OTHER, E, True)
    assert (command.prices, command.most_latency_ns) == ({"a1": 0.5}, 2e6)
    assert f'href="/compare?runs={E},{OTHER}&amp;price.a1=0.5&amp;latency_ms=2"' in page.text
    assert "/api/compare/tables/latency.csv?evaluation=" in page.text


async def test_the_verdict_on_regressions_is_said_once(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    verdict = "8 pairs: none is slower or faster with an interval that excludes 0."
    table = LATENCY.model_copy(update={"name": "regressions", "verdict": verdict})
    await standing.tell(*whole_story(), *whole_story(OTHER))
    for rows in (table.rows, ()):
        standing.held = [table.model_copy(update={"rows": rows})]
        page = (await web.get(f"/compare?runs={OTHER},{E}")).text
        assert page.count(verdict) == 1
        assert ('id="regressions"' in page) == bool(rows)


async def test_one_evaluation_is_compared_with_what_is_chosen(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story(), *whole_story(OTHER))
    page = (await web.get(f"/compare?runs={E}")).text
    assert f'type="hidden" name="runs" value="{E}"' in page
    assert f'type="checkbox" name="runs" id="run-{OTHER}"' in page
    assert f'type="checkbox" name="runs" id="run-{E}"' not in page
    assert '<th class="number">Latency</th>' in page
    assert '<td class="load">online<small>batch ' in page
    assert "Choose two or more" in (await web.get("/compare")).text


async def test_lists_send_evaluations_by_another_name(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story(), *whole_story(OTHER))
    await web.get(f"/compare?evaluation={E}&evaluation={OTHER}&runs={E}")
    assert (standing.compared[-1].first, standing.compared[-1].second) == (E, OTHER)


async def test_what_cannot_be_compared_is_said(web: httpx.AsyncClient, standing: StandIns) -> None:
    assert (await web.get(f"/compare?runs={E},{OTHER}")).status_code == 404
    assert (await web.get("/compare?runs=a%20b,c")).status_code == 400
    await standing.tell(*whole_story(), *whole_story(OTHER)[:2])
    page = (await web.get(f"/compare?runs={E},{OTHER}")).text
    assert f"Not analyzed yet: {OTHER}." in page
    assert not standing.compared
    wrong = await web.get(f"/compare?runs={E},{OTHER}&price.a1=much")
    assert wrong.status_code == 200


async def test_a_compared_table_is_a_file(web: httpx.AsyncClient) -> None:
    query = f"evaluation={E}&evaluation={OTHER}"
    csv = await web.get(f"/api/compare/tables/latency.csv?{query}")
    assert csv.headers["content-type"].startswith("text/csv")
    assert csv.text.startswith("run,p50")
    assert (await web.get(f"/api/compare/tables/latency?{query}")).json()["name"] == "latency"
    assert (await web.get(f"/api/compare/tables/none?{query}")).status_code == 404
