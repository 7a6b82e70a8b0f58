"""Pages over HTTP: the front, trouble, and the login."""

from http.cookies import SimpleCookie

import httpx

from mlscope.bus.bus import Bus
from services.gateway.access.guard import SESSION_S, cookie_of, session_of
from tests.services.gateway.conftest import web_over
from tests.stand_ins import StandIns
from tests.stories import E, whole_story


async def test_the_list_leads_to_its_evaluations(web: httpx.AsyncClient) -> None:
    page = await web.get("/evaluations")
    assert page.headers["content-type"].startswith("text/html")
    assert f'href="/evaluations/{E}"' in page.text


async def test_an_unknown_evaluation_is_a_page_of_its_own(web: httpx.AsyncClient) -> None:
    page = await web.get(f"/evaluations/{E}")
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "All evaluations" in page.text


async def test_a_page_without_its_tables_says_so(bus: Bus) -> None:
    await StandIns(bus).tell(*whole_story())
    async with web_over(bus) as web:
        page = await web.get(f"/evaluations/{E}")
    assert page.status_code == 200
    assert 'class="note"' in page.text
    assert "tables" in page.text


async def test_without_a_token_there_is_no_login(web: httpx.AsyncClient) -> None:
    assert (await web.get("/login")).headers["location"] == "/"


async def test_the_login_takes_the_token_and_nothing_longer(bus: Bus) -> None:
    async with web_over(bus, "right") as web:
        assert 'type="password"' in (await web.get("/login")).text
        for wrong in ("wrong", "", "right" + "x" * 5000):
            response = await web.post("/login", data={"token": wrong})
            assert response.status_code == 401
            assert "set-cookie" not in response.headers
        entered = await web.post("/login", data={"token": "right"})
    assert entered.status_code == 303
    proved = SimpleCookie(entered.headers["set-cookie"])[cookie_of("right")].value
    expires_s = int(proved.partition(".")[0])
    assert proved == session_of("right", expires_s - SESSION_S)
    assert "SameSite=lax" in entered.headers["set-cookie"]
