"""Manifests over REST, with a real registry on the same bus."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema  # type: ignore[import-untyped]
import pytest

from mlscope.bus.bus import Bus
from mlscope.settings import Settings
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import unpack
from services.gateway.openapi import document
from services.registry.service import serve
from tests.pings import until_answering
from tests.services.gateway.conftest import web_over
from tests.stories import a_model

MANIFESTS = "/api/manifests"


@pytest.fixture
async def web(server: MemoryServer, bus: Bus, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Lend a client of a gateway beside a registry that knows nothing."""
    stop = asyncio.Event()
    async with connect(server, "registry") as own:
        serving = asyncio.create_task(serve(own, Settings(manifests_folder=tmp_path), stop))
        await until_answering(own, "registry")
        async with web_over(bus) as web:
            yield web
        stop.set()
        await serving


def _model(**changes: Any) -> dict[str, Any]:
    own = {"inputs": [{"type": "raw"}], "model": {"graph_path": "tiny.onnx"}}
    return {**a_model().model_dump(mode="json"), **own, **changes}


async def _publish(web: httpx.AsyncClient, manifest: dict[str, Any]) -> httpx.Response:
    return await web.post(MANIFESTS, json={"manifest": manifest})


async def test_a_model_says_what_it_needs_to_run(web: httpx.AsyncClient) -> None:
    await _publish(web, _model())
    (running,) = (await web.get("/api/models")).json()["running"]
    assert (running["model"], running["agents"]) == ("tiny", [])
    assert running["missing"][0]["part"] == "an agent"
    runnable = await web.get("/api/models", params={"runnable": "true"})
    assert runnable.json() == {"models": [], "running": []}


@pytest.mark.parametrize("path", ["/api/models", "/api/models/{name}"])
async def test_the_openapi_document_has_every_part_of_an_answer_with_models(
    web: httpx.AsyncClient, path: str
) -> None:
    await _publish(web, _model())
    answer = (await web.get(path.format(name="tiny"))).json()
    described = document()
    content = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
    schema = {**content["schema"], "components": described["components"]}
    jsonschema.validate(answer, {**schema, "unevaluatedProperties": False})


async def test_a_published_model_is_found_and_a_withdrawn_one_is_not(
    web: httpx.AsyncClient,
) -> None:
    response = await _publish(web, _model())
    assert response.status_code == 201
    assert response.json()["kind"] == "model"
    (found,) = (await web.get("/api/models/tiny")).json()["models"]
    assert (found["name"], found["version"]) == ("tiny", "1.0.0")
    assert (await web.get(response.headers["location"])).json()["models"] == [found]
    gone = await web.delete(f"{MANIFESTS}/model/tiny/1.0.0")
    assert (gone.status_code, gone.json()["name"]) == (200, "tiny")
    assert (await web.get("/api/models")).json() == {"models": [], "running": []}
    assert (await web.delete(f"{MANIFESTS}/model/tiny/1.0.0")).status_code == 404


async def test_the_same_again_changes_nothing(web: httpx.AsyncClient) -> None:
    assert (await _publish(web, _model())).json()["repeated"] is False
    again = await _publish(web, _model())
    assert (again.status_code, again.json()["repeated"]) == (200, True)


async def test_another_text_of_a_known_version_conflicts(web: httpx.AsyncClient) -> None:
    await _publish(web, _model())
    other = await _publish(web, _model(description="other"))
    assert other.status_code == 409
    assert other.json()["field"] == "manifest.version"
    assert other.json()["accepted"] is False


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "manifest"),
        ({"manifest": {"kind": "spoon"}}, "manifest"),
        ({"manifest": {**a_model().model_dump(mode="json"), "version": "new"}}, "manifest.version"),
        ({"manifest": a_model().model_dump(mode="json"), "colour": 1}, "colour"),
    ],
)
async def test_a_wrong_manifest_names_its_field(
    web: httpx.AsyncClient, body: dict[str, Any], field: str
) -> None:
    response = await web.post(MANIFESTS, json=body)
    assert response.status_code == 400
    assert response.json()["field"].startswith(field)
    assert (await web.get("/api/models")).json() == {"models": [], "running": []}


async def test_other_kinds_are_published_too(web: httpx.AsyncClient) -> None:
    response = await _publish(web, {"kind": "scenario", "name": "mine", "description": "Mine."})
    assert response.status_code == 201
    found = (await web.get(response.headers["location"])).json()
    assert [each["name"] for each in found["scenarios"]] == ["mine"]
    assert (await web.delete(f"{MANIFESTS}/scenario/mine/1.0.0")).status_code == 200


async def test_hidden_models_are_found_by_name_alone(web: httpx.AsyncClient) -> None:
    await _publish(web, _model(hidden=True))
    await _publish(web, _model(name="seen"))
    listed = (await web.get("/api/models")).json()["models"]
    assert [each["name"] for each in listed] == ["seen"]
    assert len((await web.get("/api/models/tiny")).json()["models"]) == 1


async def test_every_version_of_a_model_is_shown(web: httpx.AsyncClient) -> None:
    for version in ("1.0.0", "1.1.0"):
        await _publish(web, _model(version=version))
    shown = (await web.get("/api/models/tiny")).json()["models"]
    assert [each["version"] for each in shown] == ["1.0.0", "1.1.0"]


@pytest.mark.parametrize("name", ["a-b", "org/model", "ü", "100%", "a?b#c"])
async def test_names_may_be_odd(web: httpx.AsyncClient, name: str) -> None:
    assert (await _publish(web, _model(name=name))).status_code == 201
    path = quote(name, safe="/")
    (found,) = (await web.get(f"/api/models/{path}")).json()["models"]
    assert found["name"] == name
    assert (await web.delete(f"{MANIFESTS}/model/{path}/1.0.0")).status_code == 200


async def test_an_unknown_model_is_named(web: httpx.AsyncClient) -> None:
    response = await web.get("/api/models/none")
    assert response.status_code == 404
    assert (response.json()["error"], response.json()["found"]) == ("unknown", "none")
    kind = await web.delete(f"{MANIFESTS}/spoon/tiny/1.0.0")
    assert (kind.status_code, kind.json()["field"]) == (400, "kind")


async def test_without_a_registry_it_is_said(bus: Bus) -> None:
    async with web_over(bus) as web:
        for response in (await web.get("/api/models"), await _publish(web, _model())):
            assert response.status_code == 503
            assert response.headers["retry-after"] == "1"


async def test_a_token_guards_publishing(bus: Bus) -> None:
    async with web_over(bus, token="secret") as web:
        assert (await _publish(web, _model())).status_code == 401
        assert (await web.delete(f"{MANIFESTS}/model/tiny/1.0.0")).status_code == 401


async def test_another_site_cannot_publish(web: httpx.AsyncClient) -> None:
    origin = {"Origin": "http://elsewhere.example"}
    response = await web.post(MANIFESTS, json={"manifest": _model()}, headers=origin)
    assert response.status_code == 403
    plain = await web.post(MANIFESTS, content=b"{}", headers={"Content-Type": "text/plain"})
    assert (plain.status_code, plain.json()["field"]) == (415, "Content-Type")


async def test_a_manifest_is_checked_and_not_published(web: httpx.AsyncClient) -> None:
    faulty = {"text": "name: mine\nversio: 1.0.0", "kind": "model"}
    answer = (await web.post("/api/manifests/check", json=faulty)).json()
    assert ("versio", 2) in [(fault["field"], fault["line"]) for fault in answer["faults"]]
    right = {"text": "kind: scenario\nname: mine"}
    answer = (await web.post("/api/manifests/check", json=right)).json()
    assert answer == {"faults": [], "kind": "scenario", "name": "mine", "version": "1.0.0"}
    for body in ({}, {"text": 1}, {"text": "", "kind": "modle"}, {"text": "", "files": []}):
        assert (await web.post("/api/manifests/check", json=body)).status_code == 400


async def test_a_request_is_said_in_other_forms(web: httpx.AsyncClient) -> None:
    answer = (await web.post("/api/equivalents", json={"model": "tiny", "warmup": 1})).json()
    assert answer["command_line"] == "mlscope run tiny --warmup 1"
    assert answer["missing"] == []
    assert (await web.post("/api/equivalents", json={"modle": "tiny"})).status_code == 400


async def test_equivalents_are_of_requests_that_somebody_types(web: httpx.AsyncClient) -> None:
    """Programs repeat an inline manifest: of 3.5 MB they kept the pages from everybody."""
    long = {"model": "tiny", "labels": {"note": "x" * (256 << 10)}}
    refused = await web.post("/api/equivalents", json=long)
    assert refused.status_code == 413


async def test_a_large_body_is_read_beside_the_event_loop(
    web: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []

    def noting_thread(body: bytes) -> dict[str, Any]:
        threads.append(threading.current_thread() is threading.main_thread())
        return unpack(body)

    monkeypatch.setattr("services.gateway.bodies.unpack", noting_thread)
    for length in (10, 65 << 10):
        answer = await web.post("/api/manifests/check", json={"text": "x" * length})
        assert answer.status_code == 200
    assert threads == [True, False]
