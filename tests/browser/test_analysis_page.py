"""The page of an analysis in a real browser: keys, filter, and a chart to point at."""

import json

import pytest
from playwright.async_api import Page

from schemas.analysis import Table
from services.analyzer.tables import ANALYSES
from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import Browsing, until
from tests.browser.conftest import shared_loop
from tests.browser.photographs import Photographs
from tests.services.analyzer.golden import FOLDER, frames_in
from tests.services.gateway.conftest import Running
from tests.stories import E, StandIns, whole_story

PAGE = f"/evaluations/{E}/analyses/A3"


def golden(name: str) -> Table:
    """Return the table that a golden input becomes."""
    (analysis,) = [each for each in ANALYSES if each.name == name]
    return analysis.compute(frames_in(json.loads((FOLDER / name / "input.json").read_text())))


@shared_loop(autouse=True)
async def held(standing: StandIns) -> None:
    """Hold two golden tables."""
    await standing.tell(*whole_story())
    standing.held = [golden("layers"), golden("layer_latency")]


async def test_a_chart_becomes_interactive_with_one_click_and_tells_its_figures(
    page: Page, running: Running
) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    await page.goto(f"{running.url}{PAGE}")
    assert not any("/vega/" in url for url in requests)
    await page.click("#interactive")
    await until(page, "document.querySelector('#chart .vega svg')")
    await page.hover("#chart .vega .mark-rect path", force=True)
    await until(page, "document.querySelector('#tip').textContent.includes('median: 1 µs')")


async def test_brackets_lead_to_the_analyses_beside_it(page: Page, running: Running) -> None:
    await page.goto(f"{running.url}{PAGE}")
    await page.keyboard.press("[")
    await until(page, "location.pathname.endsWith('/A2')")
    await page.wait_for_load_state("load")
    await page.keyboard.press("]")
    await until(page, "location.pathname.endsWith('/A3')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_is_accessible(
    browser: Browsing, running: Running, photographs: Photographs, scheme: str
) -> None:
    page = await browser.page(scheme=scheme)
    await page.goto(f"{running.url}{PAGE}")
    await page.wait_for_selector("#chart svg")
    await assert_accessible(page)
    await photographs.take(page, "analysis")
