"""Prices of agents on pages and by REST: kept once, they count wherever costs are computed."""

import httpx

from schemas.price import Price
from tests.services.analyzer.exploring.loads import a_load
from tests.services.gateway.pages.test_home import an_agent
from tests.stand_ins import StandIns
from tests.stories import E, whole_story

OTHER = "fedcba9876543210"


async def test_a_price_is_put_shown_and_deleted(web: httpx.AsyncClient, standing: StandIns) -> None:
    put = await web.put("/api/prices/a1", json={"dollars_per_hour": 3.06})
    assert (put.status_code, put.json()["dollars_per_hour"]) == (200, 3.06)
    shown = (await web.get("/api/prices")).json()
    assert shown == {"prices": {"a1": {"dollars_per_hour": 3.06, "set_by": "", "since_ns": 0}}}
    assert (await web.delete("/api/prices/a1")).status_code == 200
    assert (await web.get("/api/prices")).json() == {"prices": {}}


async def test_what_is_no_price_is_refused(web: httpx.AsyncClient, standing: StandIns) -> None:
    for body in ({}, {"dollars_per_hour": None}, {"dollars_per_hour": 0}):
        refused = await web.put("/api/prices/a1", json=body)
        assert (refused.status_code, refused.json()["field"]) == (400, "dollars_per_hour")
    page = await web.post("/agents/a1/price", data={"dollars": "much"})
    assert (page.status_code, "such as 3.06" in page.text) == (400, True)
    assert standing.catalog == {}


async def test_kept_prices_count_where_no_other_is_given(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    standing.catalog["prices"] = {"a1": Price(dollars_per_hour=3.6)}
    standing.loads = [a_load()]
    await standing.tell(*whole_story(), *whole_story(OTHER))
    table = (await web.get("/api/explore/tables/cost")).json()
    columns = [column["name"] for column in table["columns"]]
    assert table["rows"][0][columns.index("price")] == 3.6
    await web.get("/explore/cost?price.a1=1")
    costs = [each.prices for each in standing.explored if each.table == "cost"]
    assert costs == [{"a1": 3.6}, {"a1": 1.0}]
    await web.get(f"/api/compare?evaluation={E}&evaluation={OTHER}&price=a2=2")
    await web.get(f"/compare?runs={E},{OTHER}")
    assert [each.prices for each in standing.compared] == [{"a1": 3.6, "a2": 2.0}, {"a1": 3.6}]


async def test_the_page_of_an_agent_keeps_its_price(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    standing.agents = (an_agent(),)
    for text, value in (("4.5", "4.5"), ("3", "3"), ("12.3456789", "12.3456789"), ("", "")):
        posted = await web.post("/agents/a1/price", data={"dollars": text})
        assert (posted.status_code, posted.headers["location"]) == (303, "/agents/a1#price")
        page = (await web.get("/agents/a1")).text
        assert f'name="dollars" value="{value}"' in page
        assert ("Set by the cluster&#39;s user" in page) == bool(value)
        assert ("An empty field forgets this price." in page) == bool(value)
