"""Every page of the house: accessible in both themes, as wide as its window, without scripts."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from starlette.routing import BaseRoute, Match

from mlscope.bus.bus import Bus
from schemas.evaluation import EvaluationAnalyzed, EvaluationRequested
from schemas.manifest import DatasetManifest, FrameworkManifest, Sample, ScenarioManifest
from schemas.price import Price
from schemas.request import Evaluate
from services.gateway.live.feeds import Feeds
from services.gateway.routes import build_app
from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import Browsing
from tests.browser.conftest import shared_loop
from tests.browser.photographs import Photographs
from tests.browser.traces import inference, serve
from tests.services.analyzer.comparisons.reading import all_tables
from tests.services.analyzer.exploring.loads import a_load, measured
from tests.services.gateway.conftest import Running, serving_gateway
from tests.services.gateway.pages.catalog.test_layer_tree import a_layer
from tests.services.gateway.pages.results.test_picture import a_table
from tests.services.gateway.pages.test_home import an_agent
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, whole_story

OTHER = "fedcba9876543210"
BEFORE = "89abcdef01234567"
PAGES = {
    "home": "/",
    "evaluations": "/evaluations",
    "nothing-found": "/evaluations?search=zzz&state=failed&model=x",
    "models": "/models",
    "model": "/models/tiny/1.0.0",
    "agents": "/agents",
    "status": "/status",
    "agent": "/agents/a1",
    "frameworks": "/frameworks",
    "datasets": "/datasets",
    "dataset": "/datasets/photos/1.0.0",
    "scenarios": "/scenarios",
    "evaluation-running": f"/evaluations/{E}",
    "evaluation": f"/evaluations/{OTHER}",
    "trace": f"/evaluations/{OTHER}/trace",
    "analyses": f"/evaluations/{OTHER}/analyses",
    "analysis": f"/evaluations/{OTHER}/analyses/latency",
    "compare": "/compare",
    "compared": f"/compare?runs={OTHER},{E}",
    "compared-tables": f"/compare?runs={OTHER},{BEFORE}",
    "compared-report": f"/api/compare/report?evaluation={OTHER}&evaluation={BEFORE}",
    "explore": "/explore",
    "explore-chart": "/explore/accuracy_latency",
    "explore-cost": "/explore/cost?price.a1=3.06",
    "explore-history": "/explore/history?model=tiny",
    "explore-nothing": "/explore/systems?model=none",
    "report": f"/evaluations/{OTHER}/report",
    "new": "/new",
    "new-chosen": "/new?model=tiny&trace_level=framework",
    "new-wrong": "/new?model=tiny&batch_sizes=one",
    "try": "/try?model=tiny",
    "error": "/evaluations/none",
}
UNSHOWN = {
    "/login",
    "/static/{build}/{path:path}",
    "/healthz",
    "/metrics",
    "/perfetto/{path:path}",
    "/samples/{sha256}",
    "/evaluations/{evaluation}/report.zip",
    "/evaluations/{evaluation}/runs/{run}/perfetto",
}
"""Paths that answer no page of their own here; the login is one where a token is needed."""


@shared_loop
async def house(running: Running, standing: StandIns) -> Running:
    """Return a gateway that has something to show on every page."""
    standing.agents = (an_agent(), an_agent("a" * 64, state="lost"))
    standing.catalog = {
        "prices": {"a1": Price(dollars_per_hour=3.06, set_by="ada", since_ns=1)},
        "datasets": (
            DatasetManifest(name="photos", samples=(Sample(path="x/" + "long" * 40 + ".jpg"),)),
        ),
        "frameworks": (
            FrameworkManifest(
                name="onnxruntime",
                version="1.31.1",
                description="ONNX Runtime.",
                options={"threads": "threads of one operator"},
                containers={"amd64": {"cpu": "mlscope:0.2.0"}},
            ),
        ),
        "scenarios": (
            ScenarioManifest(name="poisson", description="At `rate_hz`."),
            ScenarioManifest(name="batched"),
        ),
    }
    standing.loads = [
        *(a_load(batch_size=size, rate=50.0 * size**0.5, **measured(0.7)) for size in (1, 2, 4, 8)),
        *(a_load("mittel-模型" * 9, ms=ms, **measured(0.8)) for ms in (20, 30)),
        a_load(device="cuda", agent="a" * 64, ms=1, rate=1000.0, accelerator="H200"),
    ]
    strange = Evaluate(model="模型-" + "ن" * 500, labels={"note": "x" * 10_000, "a" * 300: ""})
    await standing.tell(EvaluationRequested(evaluation="e3", request=strange, requested_ns=1))
    standing.comparison = all_tables(OTHER, BEFORE)
    await standing.tell(
        *whole_story(BEFORE), *whole_story(OTHER), *beginning(), *a_run("r0"), a_run("r1")[0]
    )
    return running


async def test_every_page_of_the_gateway_is_among_these(bus: Bus) -> None:
    app = build_app(bus, Feeds(bus, limit=1), most_bytes=1)
    routes = [route for route in app.routes if getattr(route, "path", "") not in UNSHOWN]
    shown = {_route_of(routes, path.partition("?")[0]) for path in PAGES.values()}
    gets = {
        str(getattr(route, "path", ""))
        for route in routes
        if "GET" in (getattr(route, "methods", None) or ())
    }
    assert gets - shown == set()
    await app.state.pictures.close()


def _route_of(routes: Sequence[BaseRoute], path: str) -> str:
    """Return the path of the one of `routes` that answers at `path`."""
    scope = {"type": "http", "method": "GET", "path": path, "root_path": ""}
    matching = [route for route in routes if route.matches(scope)[0] is Match.FULL]
    return str(getattr(matching[0], "path", "")) if matching else ""


AGAIN = {
    "nothing-found",
    "compared-tables",
    "explore-cost",
    "explore-history",
    "explore-nothing",
    "new-chosen",
    "new-wrong",
}
"""Pages that others show with other content.

`test_new_page` has that of a wrong form, `test_compare_page` the tables of a comparison.
"""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in AGAIN)) for name in PAGES]
)
async def test_a_page_is_accessible_and_fits(
    browser: Browsing, house: Running, photographs: Photographs, name: str
) -> None:
    browser.tolerate("404")
    page = await browser.page()
    await serve(page, inference())
    response = await page.goto(f"{house.url}{PAGES[name]}")
    assert response is not None
    assert response.status == (404 if name == "error" else 200)
    await assert_accessible(page)
    for width in (1280, 390, 320):
        await page.set_viewport_size({"width": width, "height": 900})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await page.set_viewport_size({"width": 1280, "height": 900})
    headings = "[...document.querySelectorAll('h2')].filter((heading) => !heading.id).length"
    assert await page.evaluate(headings) == 0
    await photographs.take(page, name)


async def test_the_login_is_accessible_and_fits(
    browser: Browsing, bus: Bus, photographs: Photographs, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text("t" * 40)
    secret.chmod(0o600)
    async with serving_gateway(bus, gateway_token_file=secret) as running:
        page = await browser.page(width=390)
        await page.goto(running.url)
        await expect(page).to_have_url(re.compile("/login"))
        await assert_accessible(page)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        await photographs.take(page, "login")
        await browser.close_pages()


async def test_pages_are_whole_without_scripts_and_storage(
    browser: Browsing, house: Running
) -> None:
    page: Page = await browser.page(java_script_enabled=False)
    await page.goto(house.url)
    assert "r1 on a1" in await page.inner_text("#now")
    await page.click("text=All evaluations")
    await expect(page.locator(f"a[href='/evaluations/{E}']")).to_have_count(1)
    await page.fill("input[name=search]", "tiny")
    await page.click("button >> text=Search")
    await expect(page).to_have_url(re.compile("search=tiny"))


async def test_a_browser_without_storage_has_themes_for_its_page(
    browser: Browsing, house: Running
) -> None:
    page = await browser.page()
    await page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('none'); } })"
    )
    await page.goto(f"{house.url}/models")
    await page.click("#theme")
    assert await page.inner_text("#theme") == "Theme: light"


async def test_the_tree_of_a_model_s_layers_unfolds_and_fits(
    browser: Browsing, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    names = [f"features.{block}.{'conv_' * 9}{layer}" for block in range(9) for layer in "abc"]
    rows = [a_layer(name, number, 10.0) for number, name in enumerate(names)]
    standing.held = [a_table("layers", *rows)["layers"]]
    analyzed = EvaluationAnalyzed(evaluation=E, tables=("layers",))
    await standing.tell(*whole_story()[:-1], analyzed)
    page = await browser.page(width=390)
    await page.goto(f"{running.url}/models/tiny/1.0.0")
    last = page.locator(".layer-tree .leaf a").last
    await expect(last).to_be_hidden()
    await page.locator(".layer-tree summary").last.click()
    await expect(last).to_have_attribute("href", f"/evaluations/{E}/analyses/A2?layer=26")
    await expect(last).to_be_in_viewport(ratio=1)
    await assert_accessible(page)
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await photographs.take(page, "model-layers")
