"""Files over HTTP: kept under their digest, bounded in size, refused with a named error."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mlscope.bus.bus import Bus
from mlscope.people import People, Person
from schemas.people import Asker, Role
from services.gateway.live.feeds import Feeds
from services.gateway.routes import build_app
from services.gateway.sent import files as sent_files
from tests.services.gateway.sent_files import kept_in

OCTETS = {"content-type": "application/octet-stream"}
MANIFEST = """\
name: mine
version: 1.0.0
framework: {name: onnxruntime}
inputs: [{type: raw, layer_name: x, shape: [-1, 4]}]
outputs: [{type: raw, layer_name: y}]
model: {graph_path: net.onnx}
"""


@pytest.fixture
async def web(bus: Bus, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Lend a client of a gateway that keeps files of up to 100 bytes in `tmp_path`."""
    app = build_app(bus, Feeds(bus, limit=1), most_bytes=10_000)
    app.state.sent_files = kept_in(tmp_path)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
        yield web


def names_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder."""
    return [path.name for path in folder.iterdir()]


async def send(web: httpx.AsyncClient, body: Any, name: str = "net.onnx") -> httpx.Response:
    """Send a file."""
    return await web.post("/api/files", params={"name": name}, content=body, headers=OCTETS)


async def test_a_file_is_kept_under_its_digest_and_named_in_the_manifest(
    web: httpx.AsyncClient, tmp_path: Path
) -> None:
    answer = await send(web, b"graph")
    sha256 = hashlib.sha256(b"graph").hexdigest()
    kept = answer.json()
    assert (answer.status_code, kept["size_bytes"]) == (201, 5)
    assert kept["address"] == f"artifact://uploads/{sha256}.onnx"
    assert (tmp_path / f"{sha256}.onnx").read_bytes() == b"graph"
    asked = {"text": MANIFEST, "kind": "model", "files": {"net.onnx": kept}}
    checked = (await web.post("/api/manifests/check", json=asked)).json()
    assert checked["manifest"]["model"]["addresses"] == {"net.onnx": kept["address"]}
    assert checked["manifest"]["model"]["checksum"] == f"sha256:{sha256}"
    assert kept["address"] in checked["text"]
    assert (checked["unused"], checked["lacking"]) == ([], [])


async def test_comments_and_layout_of_the_manifest_stay(web: httpx.AsyncClient) -> None:
    kept = (await send(web, b"graph")).json()
    commented = "# mine\n" + MANIFEST.replace("net.onnx}", "net.onnx} # exported on Monday")
    asked = {"text": commented, "kind": "model", "files": {"net.onnx": kept}}
    text = (await web.post("/api/manifests/check", json=asked)).json()["text"]
    assert text.startswith("# mine\nname: mine\n")
    assert text.endswith("} # exported on Monday\n")
    again = (await web.post("/api/manifests/check", json={**asked, "text": text})).json()
    assert again["text"] == text
    merged = MANIFEST.replace("model: {", "model: &own {") + "description: *own\n"
    faulty = (await web.post("/api/manifests/check", json={**asked, "text": merged})).json()
    assert faulty["faults"], "what is no manifest is still refused"


async def chunks(size: int) -> AsyncIterator[bytes]:
    """Yield a body whose length no header declares."""
    for _ in range(size):
        yield b"x"


async def test_what_is_too_large_is_refused_with_or_without_a_declared_length(
    web: httpx.AsyncClient, tmp_path: Path
) -> None:
    for body in (b"x" * 101, chunks(101)):
        refused = await send(web, body)
        assert refused.status_code == 413
        assert refused.json()["field"] == "body"
        assert "MLSCOPE_MAX_UPLOAD_BYTES" in refused.json()["message"]
    kept = (await send(web, b"x" * 100)).json()
    assert names_in(tmp_path) == [Path(kept["address"]).name]


async def test_a_file_that_trickles_is_refused(
    web: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_files, "GRACE_S", 0.05)
    monkeypatch.setattr(sent_files, "LEAST_BYTES_PER_S", 1000)

    async def trickle() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x"
            await asyncio.sleep(0.02)

    refused = await send(web, trickle())
    assert (refused.status_code, refused.json()["field"]) == (408, "body")
    assert names_in(tmp_path) == []


async def test_a_full_disk_is_the_gateways_own_trouble(
    web: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Path("/dev/full")
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", lambda **_: full.open("wb"))
    answer = await send(web, b"graph")
    assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
    assert "the gateway's disk is full" in answer.json()["message"]
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "headers", "body", "status", "field"),
    [
        ("", OCTETS, b"x", 400, "name"),
        ("x" * 256, OCTETS, b"x", 400, "name"),
        ("net.onnx", OCTETS, b"", 400, "body"),
        ("net.onnx", {"content-type": "text/plain"}, b"x", 415, "Content-Type"),
    ],
)
async def test_what_is_no_file_is_refused_by_its_field(
    web: httpx.AsyncClient, name: str, headers: dict[str, str], body: bytes, status: int, field: str
) -> None:
    answer = await web.post("/api/files", params={"name": name}, content=body, headers=headers)
    assert (answer.status_code, answer.json()["field"]) == (status, field)


@pytest.mark.parametrize("name", ["../../etc/passwd", "net.onnx/..", "n\u00e9t.<b>", "net.a b"])
async def test_a_name_never_becomes_a_path(
    web: httpx.AsyncClient, tmp_path: Path, name: str
) -> None:
    kept = (await send(web, b"x", name)).json()
    assert kept["address"] == f"artifact://uploads/{hashlib.sha256(b'x').hexdigest()}"
    assert names_in(tmp_path) == [Path(kept["address"]).name]


@pytest.mark.parametrize("files", ["x", {"net.onnx": "x"}, {"net.onnx": {"address": "a"}}])
async def test_files_without_an_address_are_malformed(web: httpx.AsyncClient, files: Any) -> None:
    asked = {"text": MANIFEST, "kind": "model", "files": files}
    answer = await web.post("/api/manifests/check", json=asked)
    assert (answer.status_code, answer.json()["field"]) == (400, "files")


async def test_a_gateway_without_a_store_says_what_to_do(web: httpx.AsyncClient, bus: Bus) -> None:
    app = build_app(bus, Feeds(bus, limit=1), most_bytes=10_000)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as other:
        answer = await send(other, b"x")
    assert answer.status_code == 503
    assert "mlscope run" in answer.json()["message"]


@pytest.mark.parametrize("path", ["/api/files", "/api/datasets"])
@pytest.mark.parametrize(("role", "is_refused"), [("viewer", True), ("requester", False)])
async def test_who_may_not_evaluate_sends_no_file(
    bus: Bus, tmp_path: Path, path: str, role: Role, is_refused: bool
) -> None:
    (tmp_path / "people").mkdir()
    (tmp_path / "kept").mkdir()
    person = Person(Asker("ada", role), "U", "ada's token")
    (tmp_path / "people" / "ada.json").write_text(person.text())
    people = People(tmp_path / "people")
    app = build_app(bus, Feeds(bus, limit=1), most_bytes=10_000, token="its own", people=people)
    app.state.sent_files = kept_in(tmp_path / "kept")
    transport = httpx.ASGITransport(app=app)
    headers = {**OCTETS, "Authorization": "Bearer ada's token"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
        sent = await web.post(path, params={"name": "m.onnx"}, content=b"x", headers=headers)
    assert (sent.status_code == 403) == is_refused, sent.text
    assert not is_refused or names_in(tmp_path / "kept") == []
