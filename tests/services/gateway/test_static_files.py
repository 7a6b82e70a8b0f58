"""Static files: cached for ever under the build's address, compressed, and whole in the wheel."""

import gzip
import re
from pathlib import Path

import httpx
import pytest

from services.gateway.static_files import StaticFiles, shipped_files
from tests.stand_ins import StandIns
from tests.stories import E, beginning

MOST_LINES = 400
SCRIPT_BYTES = 60_000
"""What a page may load of scripts, compressed, before anything is clicked."""


async def test_a_file_of_this_build_is_cached_for_ever(web: httpx.AsyncClient) -> None:
    response = await web.get(shipped_files().address("css/page.css"))
    assert "immutable" in response.headers["cache-control"]
    assert response.headers["content-type"].startswith("text/css")
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_a_file_of_another_build_is_this_ones_and_not_cached(web: httpx.AsyncClient) -> None:
    response = await web.get("/static/000000000000/js/theme.js")
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-store")
    assert (await web.get("/static/000000000000/js/none.js")).status_code == 404
    assert (await web.get("/static/000000000000/%2e%2e/service.py")).status_code == 404


async def test_files_are_compressed_for_those_who_accept_it(web: httpx.AsyncClient) -> None:
    address = shipped_files().address("css/page.css")
    small = await web.get(address, headers={"Accept-Encoding": "gzip"})
    plain = await web.get(address, headers={"Accept-Encoding": "identity"})
    assert small.headers["content-encoding"] == "gzip"
    assert int(small.headers["content-length"]) < int(plain.headers["content-length"])
    assert small.content == plain.content


def test_the_build_id_changes_with_any_file(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("1")
    before = StaticFiles(tmp_path).build_id
    assert StaticFiles(tmp_path).build_id == before
    (tmp_path / "a.js").write_text("2")
    assert StaticFiles(tmp_path).build_id != before


def test_a_module_s_imports_are_found_for_preloading(tmp_path: Path) -> None:
    (tmp_path / "js").mkdir()
    (tmp_path / "js/a.js").write_text('import { b } from "./b.js";\nimport "../vendor/c.js";\n')
    (tmp_path / "js/b.js").write_text('export * from "./d.js"; // import "./no.js"\n')
    (tmp_path / "js/d.js").write_text('import {\n  a,\n} from "./a.js";\n')
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor/c.js").write_text("")
    files = StaticFiles(tmp_path)
    assert files.modules_of("js/a.js") == ["js/a.js", "js/b.js", "vendor/c.js", "js/d.js"]


def test_a_file_keeps_its_content(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("a" * 1000)
    file = StaticFiles(tmp_path).files["a.css"]
    assert file.compressed is not None
    assert gzip.decompress(file.compressed) == file.content


@pytest.mark.parametrize("path", ["/", f"/evaluations/{E}"])
async def test_a_page_s_scripts_are_light_before_anything_is_clicked(
    web: httpx.AsyncClient, standing: StandIns, path: str
) -> None:
    await standing.tell(*beginning())
    page = (await web.get(path)).text
    named = set(re.findall(r'(?:src|href|data-uplot)="(/static/[^"]+\.js)"', page))
    assert named
    sizes = [
        int((await web.get(name, headers={"Accept-Encoding": "gzip"})).headers["content-length"])
        for name in named
    ]
    assert sum(sizes) <= SCRIPT_BYTES


def test_no_script_of_ours_is_long() -> None:
    repository = Path(__file__).parents[3]
    folders = ("services/gateway/static/js", "tests/browser/js")
    scripts = [path for folder in folders for path in (repository / folder).rglob("*.js")]
    lines = {path.name: len(path.read_text().splitlines()) for path in scripts}
    assert len(lines) > 40
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
