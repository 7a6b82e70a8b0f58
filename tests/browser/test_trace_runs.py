"""Which run the page of a trace shows: the chosen one, and the next while an evaluation goes on."""

import asyncio

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.chromium import Browsing, until
from tests.browser.traces import inference, serve
from tests.services.gateway.conftest import Running
from tests.stories import E, StandIns, a_run, beginning, whole_story

TIMELINE = "globalThis.__timeline"


async def test_another_run_is_chosen_and_an_unknown_one_is_said(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    await serve(page, inference(queries=1), {})
    await page.goto(f"{running.url}/evaluations/{E}/trace?run=r0")
    await page.select_option("#run", "r1")
    await expect(page.locator("#timeline")).to_have_attribute("data-run", "r1")
    await expect(page.locator("#run")).to_have_value("r1")
    await page.goto(f"{running.url}/evaluations/{E}/trace?run=gone")
    await expect(page.locator(".note")).to_contain_text("no run gone")


async def test_a_run_that_is_chosen_before_the_script_runs_is_shown(
    page: Page, running: Running, standing: StandIns
) -> None:
    held: asyncio.Queue[Route] = asyncio.Queue()
    await page.route("**/js/timeline/page.js", held.put)
    await standing.tell(*whole_story())
    await serve(page, inference(queries=1), {})
    await page.goto(f"{running.url}/evaluations/{E}/trace?run=r0", wait_until="commit")
    await page.select_option("#run", "r1")
    await page.unroute("**/js/timeline/page.js")
    await (await held.get()).continue_()
    await expect(page.locator("#timeline")).to_have_attribute("data-run", "r1")


async def test_without_a_script_a_run_is_chosen_by_its_button(
    browser: Browsing, running: Running, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    page = await browser.page(java_script_enabled=False)
    await page.goto(f"{running.url}/evaluations/{E}/trace?run=r0")
    await page.select_option("#run", "r1")
    await page.click(".run-picker button")
    await expect(page.locator("#timeline")).to_have_attribute("data-run", "r1")


@pytest.mark.parametrize("query", ["", "?run=r0"])
async def test_the_record_of_a_run_leads_to_the_run_that_is_measured_next(
    page: Page, running: Running, standing: StandIns, query: str
) -> None:
    await standing.tell(*beginning(), *a_run("r0"))
    await serve(page, inference(queries=1), {})
    await page.goto(f"{running.url}/evaluations/{E}/trace{query}")
    timeline = page.locator("#timeline")
    await expect(timeline).to_have_attribute("data-state", "shown")
    await expect(timeline).to_have_attribute("data-live", "no")
    await standing.tell(a_run("r1")[0])
    if not query:
        await expect(timeline).to_have_attribute("data-run", "r1", timeout=15_000)
        await expect(timeline).to_have_attribute("data-live", "yes")
    else:
        other = page.locator("[data-part=other] a")
        await expect(other).to_have_text("r1 is measured now", timeout=15_000)
        await other.click()
        await expect(timeline).to_have_attribute("data-run", "r1")


async def test_a_live_page_without_spans_follows_to_the_run_that_starts_next(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*beginning(), a_run("r0")[0])
    await page.goto(f"{running.url}/evaluations/{E}/trace")
    await until(page, f"{TIMELINE}.feed.source.isOpen")
    await standing.tell(*a_run("r0")[1:], a_run("r1")[0])
    await expect(page.locator("#timeline")).to_have_attribute("data-run", "r1", timeout=15_000)
