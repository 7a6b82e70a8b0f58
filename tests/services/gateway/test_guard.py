"""Who may ask: tokens, cookies, other sites' pages."""

import logging

import httpx
import pytest

from mlscope.bus.bus import Bus
from tests.services.gateway.conftest import web_over
from tests.stories import StandIns

TOKEN = "correct horse"


async def test_a_token_is_asked_for(bus: Bus, standing: StandIns) -> None:
    async with web_over(bus, TOKEN) as web:
        assert (await web.get("/api/catalog")).status_code == 401
        assert (await web.get("/evaluations")).headers["location"] == "/login"
        assert (await web.get("/healthz")).status_code == 200
        for given, status in ((TOKEN, 200), ("wrong", 401), ("", 401), ("ünicode", 401)):
            headers = httpx.Headers({"Authorization": f"Bearer {given}"}, encoding="utf-8")
            assert (await web.get("/api/catalog", headers=headers)).status_code == status


async def test_the_login_gives_a_cookie_that_is_not_the_token(bus: Bus, standing: StandIns) -> None:
    async with web_over(bus, TOKEN) as web:
        assert (await web.post("/login", data={"token": "wrong"})).status_code == 401
        response = await web.post("/login", data={"token": TOKEN})
        assert "HttpOnly" in response.headers["set-cookie"]
        assert TOKEN not in response.headers["set-cookie"]
        assert (await web.get("/evaluations")).status_code == 200


async def test_a_token_never_reaches_a_log(
    bus: Bus, standing: StandIns, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with web_over(bus, TOKEN) as web:
        await web.get("/api/catalog", headers={"Authorization": f"Bearer {TOKEN}"})
        await web.post("/login", data={"token": TOKEN})
    assert TOKEN not in caplog.text


async def test_another_sites_page_may_not_send(web: httpx.AsyncClient) -> None:
    foreign = {"Origin": "http://evil.example"}
    response = await web.post("/api/evaluations", json={"model": "tiny"}, headers=foreign)
    assert response.status_code == 403
    form = await web.post("/api/evaluations", content=b"{}", headers={"Content-Type": "text/plain"})
    assert form.status_code == 415


async def test_a_foreign_host_name_is_refused_on_loopback(web: httpx.AsyncClient) -> None:
    response = await web.get("/api/catalog", headers={"Host": "evil.example"})
    assert response.status_code == 403
