"""The page of an analysis in a real browser: keys, filter, and a chart to point at."""

import json

import pytest
from playwright.async_api import Page, expect

from schemas.analysis import Table
from services.analyzer.tables import ANALYSES
from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import Browsing, until
from tests.browser.conftest import shared_loop
from tests.browser.photographs import Photographs
from tests.services.analyzer.golden import FOLDER, frames_in
from tests.services.gateway.conftest import Running
from tests.stand_ins import StandIns
from tests.stories import E, whole_story

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


@pytest.mark.long
async def test_it_is_accessible(page: Page, running: Running, photographs: Photographs) -> None:
    await page.goto(f"{running.url}{PAGE}")
    await page.wait_for_selector("#chart svg")
    await assert_accessible(page)
    await photographs.take(page, "analysis")


OUTLINED = """() => [...document.querySelectorAll("#chart svg.broad path[stroke-width='2.5']")]
  .map((mark) => mark.closest("a").getAttribute("href"))"""
"""Where the outlined marks of the chart lead."""


async def test_a_bar_chooses_its_layer_and_every_table_has_it(
    page: Page, running: Running, photographs: Photographs
) -> None:
    await page.goto(f"{running.url}/evaluations/{E}/analyses/A2")
    assert await page.evaluate(OUTLINED) == []
    await page.locator("#chart svg.broad a[href$='layer=1']").first.click()
    await page.wait_for_url("**/analyses/A2?layer=1")
    chosen = page.locator("tr.chosen")
    assert await chosen.count() >= 1
    assert set(await page.evaluate(OUTLINED)) == {"?layer=1"}
    await expect(page.locator(".chosen-layer")).to_contain_text("Layer 1, relu1, is chosen")
    await assert_accessible(page)
    await photographs.take(page, "analysis-layer")
    await page.locator(".chosen-layer").get_by_role("link", name="A3", exact=True).click()
    await page.wait_for_url("**/analyses/A3?layer=1")
    await expect(chosen.first).to_contain_text("relu")
    assert set(await page.evaluate(OUTLINED)) == {"?layer=1"}
    await page.locator(".chosen-layer").get_by_role("link", name="none", exact=True).click()
    await expect(chosen).to_have_count(0)


async def test_the_dot_of_a_layer_is_outlined_on_the_roofline(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    standing.held = [golden(name) for name in ("layers", "layer_roofline")]
    await page.goto(f"{running.url}/evaluations/{E}/analyses/A14?layer=0")
    assert await page.evaluate(OUTLINED) == ["?layer=0"]
    await expect(page.locator("tr.chosen")).to_have_count(1)
    await photographs.take(page, "analysis-roofline-layer")


@pytest.mark.parametrize(
    "table",
    [
        "cold_layers",
        pytest.param("layer_overheads", marks=pytest.mark.long),
        pytest.param("static_work", marks=pytest.mark.long),
    ],
)
async def test_a_layer_is_chosen_in_the_tables_beside_the_time_of_layers(
    page: Page, running: Running, standing: StandIns, photographs: Photographs, table: str
) -> None:
    standing.held = [golden("layers"), golden(table)]
    await page.goto(f"{running.url}/evaluations/{E}/analyses/{table}")
    await page.locator("#table tbody a[href*='layer=1']").first.click()
    await page.wait_for_url(f"**/analyses/{table}?layer=1*")
    await expect(page.locator("tr.chosen")).to_have_count(1)
    assert await page.evaluate(OUTLINED) == ["?layer=1"]
    await photographs.take(page, f"analysis-layer-{table}")


async def test_on_a_phone_each_cell_has_its_heading(
    browser: Browsing, running: Running, standing: StandIns
) -> None:
    standing.held = [golden("layer_overheads")]
    page = await browser.page(width=390)
    await page.goto(f"{running.url}/evaluations/{E}/analyses/layer_overheads")
    left_ends = """(selector) => [...document.querySelectorAll(selector)]
        .filter((cell) => cell.offsetParent).map((cell) => cell.offsetLeft)"""
    heads = await page.evaluate(left_ends, "#table thead tr > *")
    assert heads == await page.evaluate(left_ends, "#table tbody tr:first-child > *")


async def test_a_layer_is_chosen_by_keys_in_the_table(page: Page, running: Running) -> None:
    await page.goto(f"{running.url}{PAGE}")
    await page.locator("#table tbody a").last.focus()
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/analyses/A3?layer=*#chosen")
    await expect(page.locator("tr.chosen")).to_be_in_viewport()


async def test_a_dot_of_the_interactive_chart_chooses_too(page: Page, running: Running) -> None:
    await page.goto(f"{running.url}/evaluations/{E}/analyses/A2")
    await page.click("#interactive")
    await until(page, "document.querySelector('#chart .vega svg')")
    await page.locator("#chart .vega .mark-rect path").nth(1).click(force=True)
    await page.wait_for_url("**/analyses/A2?layer=*")
