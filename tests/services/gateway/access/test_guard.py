"""Who may ask: tokens, cookies, other sites' pages."""

import asyncio
import logging
import time
from http.cookies import SimpleCookie
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.datastructures import URL
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from mlscope.bus.asked import answer_all
from mlscope.bus.bus import Bus
from mlscope.bus.records import ReceivedCommand
from mlscope.logins import TICKET_S, login_address
from mlscope.people import People, Person
from schemas.encoding.codec import encode_body
from schemas.people import THE_USER, Asker
from schemas.request import ListEvaluations, Refused, ShowEvaluation
from schemas.subjects import asker_of
from services.gateway.access.failures import MAX_FAILURES, WITHIN_S, Failures
from services.gateway.access.guard import (
    MOST_QUERY_FIELDS,
    SESSION_S,
    Guard,
    cookie_of,
    session_of,
)
from tests.services.gateway.conftest import web_over
from tests.stand_ins import StandIns

TOKEN = "correct horse"


async def test_a_token_is_asked_for(bus: Bus, standing: StandIns) -> None:
    async with web_over(bus, TOKEN) as web:
        assert (await web.get("/api/catalog")).status_code == 401
        assert (await web.get("/evaluations")).headers["location"] == "/login"
        assert (await web.get("/healthz")).status_code == 503, "no gateway is announced here"
        for given, status in ((TOKEN, 200), ("wrong", 401), ("", 401), ("ünicode", 401)):
            headers = httpx.Headers({"Authorization": f"Bearer {given}"}, encoding="utf-8")
            assert (await web.get("/api/catalog", headers=headers)).status_code == status


async def test_many_wrong_tokens_are_answered_late_and_right_ones_at_once(
    bus: Bus,
    standing: StandIns,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("services.gateway.access.guard.WRONG_TOKEN_S", 0.5)
    async with web_over(bus, TOKEN) as web:

        async def asked_s(token: str) -> tuple[int, float]:
            began_s = time.monotonic()
            headers = {"Authorization": f"Bearer {token}"}
            answer = await web.get("/api/catalog", headers=headers)
            return answer.status_code, time.monotonic() - began_s

        early = [await asked_s("wrong") for _ in range(MAX_FAILURES)]
        late, right = await asked_s("wrong"), await asked_s(TOKEN)
    assert {status for status, _ in (*early, late)} == {401}
    assert min(elapsed_s for _, elapsed_s in early) < 0.5 <= late[1]
    assert right[0] == 200
    assert right[1] < late[1]
    assert caplog.messages.count("many wrong tokens") == 1


async def test_a_query_of_thousands_of_parameters_is_not_read(
    bus: Bus, standing: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "&" * (MOST_QUERY_FIELDS - 1)
    async with web_over(bus) as web:
        assert (await web.get(f"/api/evaluations?{query}")).status_code == 200
        monkeypatch.setattr("starlette.requests.Request.query_params", None)
        for path in ("/api/evaluations", "/new", "/login"):
            refused = await web.get(f"{path}?{query}&")
            assert (refused.status_code, refused.json()["error"]) == (400, "malformed")
            assert f"at most {MOST_QUERY_FIELDS} parameters" in refused.json()["message"]


@pytest.mark.parametrize("path", ["/api/evaluations", "/", "/login"])
async def test_of_who_has_no_token_neither_query_nor_cookies_are_read(
    bus: Bus, standing: StandIns, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Both may take a tenth of a second."""
    monkeypatch.setattr("starlette.requests.Request.query_params", None)
    monkeypatch.setattr("starlette.requests.Request.cookies", None)
    headers = {"Cookie": f"mlscope_session_0=1; {'a=b; ' * 2000}"}
    async with web_over(bus, TOKEN) as web:
        for query in ("%61=%61&" * 4000, "login=1.2.3&a=%61"):
            answer = await web.get(f"{path}?{query}", headers=headers)
            assert answer.status_code in (303, 401) or path == "/login"


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


@pytest.mark.parametrize(
    "host",
    ["x/healthz?", "x/static/?", "a b", "[::1", "", "localhost@evil.example", "x#", "http://x"],
)
async def test_what_is_written_as_a_host_opens_nothing(
    bus: Bus, standing: StandIns, host: str
) -> None:
    """An address made of the header would have the path that the header ends with."""
    for token in (TOKEN, None):
        async with web_over(bus, token) as web:
            response = await web.get("/api/catalog", headers={"Host": host})
            assert response.status_code == 400
            assert response.json()["accepted"] is False
            assert response.json()["field"] == "Host"
            assert "expected NAME or NAME:PORT" in response.json()["message"]


async def test_what_is_routed_is_guarded_whatever_address_the_host_makes_of_it() -> None:
    """Starlette below 1.10 makes the address of any Host; the check of the header comes first."""
    served: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        served.append(scope["path"])

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    statuses: list[int] = []
    guard = Guard(app, TOKEN, frozenset(), People(Path("/nowhere")), 1)
    for path, address in (("/api/catalog", "/healthz"), ("/healthz", "/api/catalog")):
        scope: Scope = {"type": "http", "method": "GET", "path": path, "query_string": b""}
        scope.update(headers=[(b"host", b"localhost")], scheme="http", client=None)
        request = Request(scope)
        request._url = URL(f"http://localhost{address}")
        assert (request.url.path, request.scope["path"]) == (address, path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("services.gateway.access.guard.Request", Mock(return_value=request))
            await guard(scope, receive, send)
    assert (statuses, served) == ([401], ["/healthz"])


async def test_a_login_ends(bus: Bus, standing: StandIns) -> None:
    async with web_over(bus, TOKEN) as web:
        response = await web.post("/login", data={"token": TOKEN})
        cookie = SimpleCookie(response.headers["set-cookie"])[cookie_of(TOKEN)]
        assert int(cookie["max-age"]) == SESSION_S
    expired = session_of(TOKEN, time.time() - SESSION_S - 1)
    lasting = session_of(TOKEN, time.time())
    later = f"{int(time.time()) + 10 * SESSION_S}.{lasting.partition('.')[2]}"
    for value, status in ((lasting, 200), (expired, 401), (later, 401), ("x.y", 401), ("", 401)):
        async with web_over(bus, TOKEN) as web:
            headers = {"Cookie": f"{cookie_of(TOKEN)}={value}"}
            response = await web.get("/api/catalog", headers=headers)
            assert response.status_code == status, value


async def test_an_address_with_a_ticket_logs_in_once(bus: Bus, standing: StandIns) -> None:
    address = login_address("http://localhost/evaluations?a=1&a=2", TOKEN, time.time())
    assert TOKEN not in address
    async with web_over(bus, TOKEN) as web:
        entered = await web.get(address)
        assert (entered.status_code, entered.headers["location"]) == (303, "/evaluations?a=1&a=2")
        assert (await web.get("/evaluations")).status_code == 200
        again = await web.get(address)
        assert again.headers["location"] == "/evaluations?a=1&a=2"
        web.cookies.clear()
        thief = await web.get(address)
        assert (thief.headers["location"], "set-cookie" in thief.headers) == ("/login", False)


@pytest.mark.parametrize(("site", "goes_on_as"), [("cross-site", ""), ("none", "ada")])
async def test_no_link_of_another_site_makes_a_person_somebody_else(
    tmp_path: Path, bus: Bus, site: str, goes_on_as: str
) -> None:
    """The link's author would see what the person asks for from then on."""
    (tmp_path / "ada.json").write_text(Person(Asker("ada", "viewer"), "U", "ada's").text())
    heard: list[str] = []

    async def answer(command: ReceivedCommand) -> bytes:
        heard.append(asker_of(command.subject).name)
        return b'{"evaluations": [], "total": 0}'

    await answer_all(bus, ListEvaluations, answer, queue="scheduler")
    async with web_over(bus, TOKEN, people=People(tmp_path)) as web:
        await web.post("/login", data={"token": TOKEN})
        address = login_address("http://localhost/healthz2", "ada's", time.time())
        entered = await web.get(address, headers={"Sec-Fetch-Site": site})
        assert (entered.status_code, entered.headers["location"]) == (303, "/healthz2")
        await web.get("/api/evaluations")
    assert heard == [goes_on_as]


async def test_an_empty_token_lets_nobody_in(bus: Bus) -> None:
    """A token file that was never filled would let everybody in who sends no token at all."""
    async with web_over(bus, "") as web:
        for headers in ({"Authorization": "Bearer "}, {"Authorization": "Bearer"}):
            assert (await web.get("/api/catalog", headers=headers)).status_code == 401
        assert (await web.post("/login", data={"token": ""})).status_code == 401


async def test_no_other_ticket_logs_in(bus: Bus, standing: StandIns) -> None:
    now_s = time.time()
    tickets = [
        login_address("http://localhost/", token, made_s).rpartition("=")[2]
        for token, made_s in (("other", now_s), (TOKEN, now_s - TICKET_S - 1), (TOKEN, now_s))
    ]
    later = f"{int(now_s) + 10 * TICKET_S}.{tickets[2].partition('.')[2]}"
    async with web_over(bus, TOKEN) as web:
        for ticket in (tickets[0], tickets[1], later, "", ".", "1.2.3", "\u0661.a.b", "9" * 5000):
            refused = await web.get("/", params={"login": ticket})
            assert (refused.status_code, refused.headers["location"]) == (303, "/login")
        twice = await web.get("/", params={"login": [tickets[2], tickets[2]]})
        assert twice.headers["location"] == "/login"
        assert (await web.post(f"/?login={tickets[2]}")).headers["location"] == "/login"
        assert (await web.get(f"/?login={tickets[2]}")).headers["location"] == "/"


@pytest.mark.parametrize("path", ["//evil.example", "//evil.example/%2e%2e", "/\\evil.example"])
async def test_a_ticket_leads_to_no_other_host(bus: Bus, standing: StandIns, path: str) -> None:
    address = login_address("http://localhost/", TOKEN, time.time())
    async with web_over(bus, TOKEN) as web:
        request = httpx.Request("GET", address.replace("/?", "/x?"))
        query = request.url.query.decode()
        request.url = request.url.copy_with(raw_path=f"{path}?{query}".encode())
        location = (await web.send(request)).headers["location"]
    assert urlsplit(location).netloc == ""
    assert location.startswith(("/evil.example", "/%5C"))


async def test_gateways_of_one_host_keep_their_logins_apart(bus: Bus, standing: StandIns) -> None:
    assert cookie_of(TOKEN) != cookie_of("other")


async def test_a_token_is_not_guessed_by_trying(bus: Bus, standing: StandIns) -> None:
    async with web_over(bus, TOKEN) as web:
        for _ in range(MAX_FAILURES):
            assert (await web.post("/login", data={"token": "wrong"})).status_code == 401
        refused = await web.post("/login", data={"token": TOKEN})
        assert refused.status_code == 429
        assert 0 < int(refused.headers["Retry-After"]) <= WITHIN_S
        assert "Too many attempts" in refused.text


def test_failures_are_forgotten_and_each_address_has_its_own() -> None:
    failures = Failures()
    for second in range(MAX_FAILURES):
        assert failures.wait_s("a", second) == 0
        failures.add("a", second)
    assert failures.wait_s("a", MAX_FAILURES) == WITHIN_S - MAX_FAILURES
    assert failures.wait_s("b", MAX_FAILURES) == 0
    assert failures.wait_s("a", WITHIN_S) == 0


async def test_a_person_asks_in_the_own_name_until_the_token_is_taken_back(
    tmp_path: Path, bus: Bus
) -> None:
    asker = Asker("ada", "viewer", 1, 2)
    file = tmp_path / "ada.json"
    file.write_text(Person(asker, "U", "ada's token").text())
    heard: list[Asker] = []

    async def answer(command: ReceivedCommand) -> bytes:
        heard.append(asker_of(command.subject))
        return b'{"evaluations": [], "total": 0}'

    await answer_all(bus, ListEvaluations, answer, queue="scheduler")
    async with web_over(bus, TOKEN, people=People(tmp_path)) as web:
        own = {"Authorization": "Bearer ada's token"}
        assert (await web.get("/api/evaluations", headers=own)).status_code == 200
        owner = {"Authorization": f"Bearer {TOKEN}"}
        assert (await web.get("/api/evaluations", headers=owner)).status_code == 200
        octets = {**own, "Content-Type": "application/octet-stream"}
        sent = await web.post("/api/files?name=m.onnx", content=b"x", headers=octets)
        assert sent.status_code in (403, 503)
        assert (await web.post("/login", data={"token": TOKEN})).status_code == 303
        login = await web.post("/login", data={"token": "ada's token"})
        assert login.status_code == 303
        assert (await web.get("/api/evaluations")).status_code == 200
        assert heard == [asker, THE_USER, asker]
        file.unlink()
        assert (await web.get("/api/evaluations")).status_code == 401
        assert (await web.get("/api/evaluations", headers=own)).status_code == 401


async def test_no_events_are_streamed_of_what_a_person_may_not_see(
    tmp_path: Path, bus: Bus
) -> None:
    asker = Asker("ada", "viewer")
    (tmp_path / "ada.json").write_text(Person(asker, "U", "ada's token").text())
    heard: list[Asker] = []

    async def answer(command: ReceivedCommand) -> bytes:
        heard.append(asker_of(command.subject))
        return encode_body(Refused(error="unknown", message="no evaluation e1"), json_text=True)

    await answer_all(bus, ShowEvaluation, answer, queue="scheduler")
    async with web_over(bus, TOKEN, people=People(tmp_path)) as web:
        headers = {"Authorization": "Bearer ada's token"}
        async with asyncio.timeout(20):
            refused = await web.get("/api/evaluations/e1/events", headers=headers)
    assert (refused.status_code, heard) == (404, [asker])
