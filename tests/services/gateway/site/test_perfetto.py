"""The Perfetto UI: its files, what it may do, and what the page says where it is not installed."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from services.gateway.site import perfetto
from tests.stand_ins import StandIns
from tests.stories import E, whole_story

_PAGE = f"/evaluations/{E}/runs/r0/perfetto"
_INDEX = "<body><script>start()</script></body>"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Pretend that a small Perfetto UI is installed."""
    folder = tmp_path / "web_dist"
    (folder / "v1").mkdir(parents=True)
    (folder / "index.html").write_text(_INDEX)
    (folder / "v1" / "engine.wasm").write_bytes(b"\0asm")
    (tmp_path / "secret").write_text("hidden words")
    monkeypatch.setattr(perfetto, "files_folder", lambda: folder)
    perfetto.content_policy.cache_clear()
    yield folder
    perfetto.content_policy.cache_clear()


@pytest.mark.usefixtures("installed")
async def test_the_page_embeds_it_and_names_the_trace(
    web: httpx.AsyncClient, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    text = (await web.get(_PAGE)).text
    assert 'src="/perfetto/index.html#!/viewer?mode=embedded"' in text
    assert f'data-trace="/api/evaluations/{E}/runs/r0/exports/perfetto"' in text
    assert "perfetto.js" in text


@pytest.mark.usefixtures("installed")
async def test_its_files_may_run_their_own_scripts_and_call_no_other_site(
    web: httpx.AsyncClient,
) -> None:
    answer = await web.get("/perfetto/")
    assert answer.text == _INDEX
    policy = answer.headers["Content-Security-Policy"]
    assert "script-src 'self' 'wasm-unsafe-eval' 'sha256-" in policy
    assert "default-src 'self'" in policy
    assert "http" not in policy
    assert answer.headers["Cache-Control"] == "no-cache"
    engine = await web.get("/perfetto/v1/engine.wasm")
    assert engine.headers["Content-Type"] == "application/wasm"
    assert "max-age" in engine.headers["Cache-Control"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("path", ["../secret", "%2e%2e/secret", "v1/../../secret", "v1", "none.js"])
async def test_other_files_are_not_served(web: httpx.AsyncClient, path: str) -> None:
    answer = await web.get(f"/perfetto/{path}")
    assert answer.status_code == 404
    assert "hidden words" not in answer.text


async def test_without_it_the_page_says_what_to_install(
    web: httpx.AsyncClient, standing: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perfetto, "files_folder", lambda: None)
    await standing.tell(*whole_story())
    text = (await web.get(_PAGE)).text
    assert "mlscope[perfetto]" in text
    assert "iframe" not in text
    assert f"/api/evaluations/{E}/runs/r0/exports/perfetto" in text
    assert (await web.get("/perfetto/index.html")).status_code == 404
