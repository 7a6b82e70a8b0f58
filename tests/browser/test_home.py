"""The first page in a real browser: progress while something runs, and what came of it."""

from playwright.async_api import Page

from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import until
from tests.browser.photographs import Photographs
from tests.services.gateway.conftest import Running
from tests.services.gateway.pages.test_home import an_agent
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, ending, queries

ITEM = f"document.querySelector('#now [data-evaluation=\"{E}\"]')"


async def test_home_follows_an_evaluation_from_request_to_result(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    standing.agents = (an_agent(),)
    await page.goto(running.url)
    await until(page, "document.body.innerText.includes('Nothing runs')")
    await photographs.take(page, "home-empty")
    await standing.tell(*beginning())
    await until(page, f"{ITEM}?.textContent.includes('planned')")
    started, *rest = a_run("r0")
    await standing.tell(started)
    await until(page, f"{ITEM}?.querySelector('[data-run=r0]')")
    await standing.tell(queries([5_000_000] * 40))
    await until(
        page,
        f"{ITEM}.querySelector('[data-field=p99]').innerText.endsWith('\xa0ms (few\xa0queries)')",
    )
    assert await page.evaluate(f"{ITEM}.querySelector('progress').value") == 0.2
    await until(page, "document.querySelector('#fleet .busy')")
    await assert_accessible(page)
    await photographs.take(page, "home-running")
    await standing.tell(*rest, *a_run("r1"), *ending())
    await until(page, f"!{ITEM} && document.querySelector('#latest .analyzed')")
    await assert_accessible(page)


async def test_the_theme_is_kept_and_never_flashes(
    page: Page, running: Running, standing: StandIns
) -> None:
    await page.goto(f"{running.url}/evaluations")
    assert await page.inner_text("#theme") == "Theme: auto"
    await page.click("#theme")
    await page.click("#theme")
    await page.goto(f"{running.url}/models")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert await page.inner_text("#theme") == "Theme: dark"
    assert await page.evaluate(paper) == "rgb(21, 23, 26)"
    await page.click("#theme")
    assert await page.evaluate(paper) == "rgb(252, 252, 251)"


async def test_the_first_tab_stop_skips_the_navigation(
    page: Page, running: Running, standing: StandIns
) -> None:
    await page.goto(f"{running.url}/evaluations")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"
