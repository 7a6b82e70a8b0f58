"""The page that compares evaluations in a real browser."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import Browsing
from tests.browser.photographs import Photographs
from tests.browser.traces import inference, serve_json
from tests.services.analyzer.comparisons.reading import all_tables
from tests.services.gateway.conftest import Running
from tests.stand_ins import StandIns
from tests.stories import E, whole_story

OTHER = "fedcba9876543210"


async def test_evaluations_are_chosen_by_keys_and_the_base_is_changed(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*whole_story(), *whole_story(OTHER))
    await page.goto(f"{running.url}/compare?runs={E}")
    await page.focus(f"#run-{OTHER}")
    await page.keyboard.press("Space")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/compare?runs={E}&runs={OTHER}")
    await page.get_by_role("link", name="make it the base").click()
    await page.wait_for_url(f"**/compare?runs={OTHER},{E}")
    assert standing.compared[-1].first == OTHER


@pytest.mark.long
async def test_it_is_accessible(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    await standing.tell(*whole_story(), *whole_story(OTHER))
    await page.goto(f"{running.url}/compare")
    await assert_accessible(page)
    await page.set_viewport_size({"width": 390, "height": 900})
    right = "cell => cell.getBoundingClientRect().right"
    assert await page.locator("td.throughput").first.evaluate(right) <= 390
    await page.set_viewport_size({"width": 1280, "height": 900})
    await page.goto(f"{running.url}/compare?runs={E},{OTHER}")
    await assert_accessible(page)
    await photographs.take(page, "compare")


@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.long)])
async def test_each_comparison_has_its_chart_and_its_table(
    browser: Browsing, running: Running, standing: StandIns, width: int
) -> None:
    standing.comparison = all_tables(E, OTHER)
    await standing.tell(*whole_story(), *whole_story(OTHER))
    page = await browser.page(width=width)
    await page.goto(f"{running.url}/compare?runs={E},{OTHER}")
    await expect(page.locator(".rivals + .verdict")).to_contain_text("2 are slower by 1% or more")
    standing = page.locator(".rival", has_text="make it the base").locator(".ratio.worse")
    await expect(standing).to_contain_text("▼ slower than the base at 2 of 2 loads")
    for name in ("regressions", "throughput_by_batch", "speedup", "systems", "cost"):
        section = page.locator(f"#{name}")
        await expect(section.locator("figure svg:visible").first).to_be_visible()
        await section.locator("summary").first.click()
        await expect(section.locator("tbody tr").first).to_be_visible()
    await assert_accessible(page)
    assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_typical_queries_are_mirrored(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    await standing.tell(*whole_story(), *whole_story(OTHER))
    await serve_json(page, {E: inference(queries=5), OTHER: inference(queries=3, layers=12)})
    await page.goto(f"{running.url}/compare?runs={E},{OTHER}")
    section = page.locator("#mirrored")
    await section.get_by_role("button").click()
    await expect(section.locator("output")).to_contain_text("The query: A 1.")
    await section.locator("rect[data-name=conv_3]").first.hover()
    await expect(section.locator("output")).to_contain_text("layer conv_3: A ")
    assert await section.locator("rect[data-name=conv_3]:not(.faded)").count() == 2
    await section.get_by_label("each as wide as the page").check()
    await expect(section.locator(".tick").last).to_have_text("100%")
    await assert_accessible(page)
    await photographs.take(page, "compare-mirrored")
