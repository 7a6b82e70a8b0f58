"""`/metrics` and `/status`: what answers over the bus, behind the token."""

from functools import partial

import pytest

from mlscope.bus.bus import Bus
from mlscope.bus.errors import Unreachable
from mlscope.bus.records import ServiceInfo
from tests.services.gateway.conftest import web_over


async def test_every_answering_service_has_its_figures(bus: Bus) -> None:
    await bus.announce(ServiceInfo("analyzer", "1.0.0", "", {}), lambda: {"analyzed": 7})
    async with web_over(bus) as web:
        response = await web.get("/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = response.text.splitlines()
    assert 'mlscope_analyses_total{agent="",host="",service="analyzer"} 7.0' in lines
    assert 'mlscope_service_up{service="analyzer"} 1.0' in lines
    assert 'mlscope_service_up{service="scheduler"} 0.0' in lines
    assert 'mlscope_durable_waiting{durable="scheduler",stream="EVALUATIONS"} 0.0' in lines


async def test_the_page_names_who_is_silent_and_what_waits(bus: Bus) -> None:
    figures = {"process": {"host": "here", "restarts": 3}, "analyzed": 7}
    await bus.announce(ServiceInfo("analyzer", "1.2.3", "", {}), lambda: figures)
    async with web_over(bus) as web:
        page = (await web.get("/status")).text
        told = (await web.get("/api/status")).json()
    assert "No answer from: registry, scheduler, collector, gateway, agent" in page
    assert "1.2.3" in page
    (analyzer,) = [row for row in told["instances"] if row["service"] == "analyzer"]
    assert (analyzer["state"], analyzer["name"], analyzer["restarts"]) == ("ready", "here", 3)
    silent = {row["service"] for row in told["instances"] if row["state"] == "silent"}
    assert silent == {"registry", "scheduler", "collector", "gateway", "agent"}
    assert told["backlogs"][0]["durable"] == "scheduler"


async def test_facts_that_a_service_could_not_read_are_said(bus: Bus) -> None:
    await bus.announce(ServiceInfo("scheduler", "1.2.3", "", {}), lambda: {"bus": {"unread": 2}})
    await bus.announce(ServiceInfo("analyzer", "1.2.3", "", {}), lambda: {"bus": {"unread": 0}})
    async with web_over(bus) as web:
        page = (await web.get("/status")).text
        told = (await web.get("/api/status")).json()
        metrics = (await web.get("/metrics")).text
    assert "Facts that could not be read: scheduler 2 facts. A newer mlscope wrote them" in page
    counts = {row["service"]: row["unread"] for row in told["instances"]}
    assert (counts["scheduler"], counts["analyzer"], counts["registry"]) == (2, 0, None)
    assert 'mlscope_facts_unread_total{agent="",host="",service="scheduler"} 2.0' in metrics


async def test_rows_that_the_database_lost_are_said(bus: Bus) -> None:
    await bus.announce(ServiceInfo("agent", "1.0.0", "", {}), lambda: {"lost_evaluations": 99})
    async with web_over(bus) as web:
        assert (await web.get("/api/status")).json()["lost_evaluations"] == 0
        assert "lacks rows" not in (await web.get("/status")).text
    await bus.announce(
        ServiceInfo("collector", "1.0.0", "", {}),
        lambda: {"lost_evaluations": 2},
    )
    async with web_over(bus) as web:
        assert (await web.get("/api/status")).json()["lost_evaluations"] == 2
        assert "lacks rows of 2 evaluations" in (await web.get("/status")).text
        labels = 'agent="",host="",service="collector"'
        assert f"mlscope_evaluations_lost{{{labels}}} 2.0" in (await web.get("/metrics")).text


async def test_rows_that_no_backup_has_are_said(bus: Bus) -> None:
    await bus.announce(
        ServiceInfo("collector", "1.0.0", "", {}), lambda: {"unsaved_evaluations": 3}
    )
    async with web_over(bus) as web:
        assert (await web.get("/api/status")).json()["unsaved_evaluations"] == 3
        page = (await web.get("/status")).text
        assert "No backup has all rows of 3 evaluations. The log still has these rows" in page
        labels = 'agent="",host="",service="collector"'
        assert f"mlscope_evaluations_unsaved{{{labels}}} 3.0" in (await web.get("/metrics")).text


async def test_rows_that_the_database_alone_has_are_said(bus: Bus) -> None:
    figures = {"unsaved_evaluations": 3, "database_only_evaluations": 2, "held_bytes": 5_000_000}
    await bus.announce(ServiceInfo("collector", "1.0.0", "", {}), lambda: figures)
    async with web_over(bus) as web:
        told = (await web.get("/api/status")).json()
        page, metrics = (await web.get("/status")).text, (await web.get("/metrics")).text
    assert (told["database_only_evaluations"], told["held_bytes"]) == (2, 5_000_000)
    assert "Rows of 2 of them have left the log, too" in page
    labels = 'agent="",host="",service="collector"'
    assert f"mlscope_evaluations_database_only{{{labels}}} 2.0" in metrics
    assert f"mlscope_batches_held_bytes{{{labels}}} 5e+06" in metrics


async def test_nobody_passes_for_another_service(bus: Bus) -> None:
    async def forged(subject: str, **_: object) -> list[bytes]:
        endpoint = b'{"name": "x", "subject": "", "data": {"agents": 99}}'
        return [b'{"name": "registry", "version": "1", "endpoints": [%b]}' % endpoint, b"[", b"{}"]

    bus.ask_all = forged  # type: ignore[method-assign]
    async with web_over(bus) as web:
        text = (await web.get("/metrics")).text
    assert 'mlscope_service_up{service="registry"} 1.0' in text
    assert 'mlscope_service_up{service="agent"} 0.0' in text


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"agent": %b1%b}' % (b"[" * 900, b"]" * 900),
        b'{"process": {"restarts": %b}}' % (b"9" * 400),
        b'{"process": {"restarts": Infinity, "started_s": NaN, "cpu_s": 1e300}}',
        b'{"process": {"started_s": 9e17}, "rows_published": {"\\ud800": 1}}',
        b'{"agent": "\\ud800"}',
        b'{"agent": "%b"}' % (b"x" * 300_000),
    ],
)
async def test_one_agents_answer_breaks_no_page(bus: Bus, data: bytes) -> None:
    async def answers(subject: str, **_: object) -> list[bytes]:
        endpoint = b'{"name": "x", "subject": "", "data": %b}'
        named = b'{"name": "agent", "version": "1", "endpoints": [%b]}'
        return [named % (endpoint % data), named % (endpoint % b'{"agent": "sound"}')]

    bus.ask_all = answers  # type: ignore[method-assign]
    async with web_over(bus) as web:
        for path in ("/metrics", "/status", "/api/status"):
            answer = await web.get(path)
            assert answer.status_code == 200
            assert "sound" in answer.text or path == "/metrics"


async def test_no_instance_replaces_another_with_the_same_labels(bus: Bus) -> None:
    for restarts in (3, 99):
        figures = {"process": {"host": "here", "restarts": restarts}, "agent": "first"}
        await bus.announce(ServiceInfo("agent", "1.0.0", "", {}), partial(dict, figures))
    async with web_over(bus) as web:
        text = (await web.get("/metrics")).text
    for host, restarts in (("here", 3), ("here (2)", 99)):
        labels = f'agent="first",host="{host}",service="agent"'
        assert f"mlscope_restarts_total{{{labels}}} {restarts}.0" in text


@pytest.mark.parametrize("path", ["/metrics", "/api/status"])
async def test_they_need_the_token(bus: Bus, path: str) -> None:
    async with web_over(bus, token="secret") as web:
        assert (await web.get(path)).status_code == 401
        headers = {"Authorization": "Bearer secret"}
        assert (await web.get(path, headers=headers)).status_code == 200


async def test_without_a_broker_every_service_is_down(bus: Bus) -> None:
    async def away(*_: object, **__: object) -> list[bytes]:
        raise Unreachable("the server is away")

    bus.ask_all = bus.backlog = away  # type: ignore[assignment,method-assign]
    async with web_over(bus) as web:
        text = (await web.get("/metrics")).text
    assert text.count("mlscope_service_up{") == text.count("} 0.0") == 6
