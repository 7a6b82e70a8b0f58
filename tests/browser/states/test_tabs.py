"""Many pages of one browser, and pages that slept: none waits, none shows old as new."""

import pytest
from playwright.async_api import BrowserContext, Page, expect

from cli.cluster.ports import free_port
from mlscope.testing.memory_bus import MemoryServer
from tests.browser.chromium import Browsing, until
from tests.browser.photographs import Photographs
from tests.browser.states.gateways import gateway, try_now
from tests.services.gateway.conftest import Running
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, queries

BANNER = "document.getElementById('connection')"
ANSWERED = "document.querySelector('#runs [data-run=r0] [data-field=answered]').textContent"


async def opened(context: BrowserContext, address: str, count: int) -> list[Page]:
    """Open a page this many times, as tabs of one browser; all of them are in sight."""
    pages = [await context.new_page() for _ in range(count)]
    for page in pages:
        await page.goto(address)
    return pages


@pytest.mark.long
async def test_eight_pages_in_sight_are_brought_up_to_date_and_a_ninth_opens_at_once(
    browser: Browsing, server: MemoryServer, standing: StandIns, photographs: Photographs
) -> None:
    """HTTP/1.1 has six connections for all of them: with eight streams the ninth page waits."""
    await standing.tell(*beginning(), a_run("r0")[0])
    context = (await browser.page()).context
    async with gateway(server, free_port()) as url:
        pages = await opened(context, f"{url}/evaluations/{E}", 8)
        await expect(pages[-1].locator("#connection")).to_contain_text("4 other windows")
        (ninth,) = await opened(context, f"{url}/models", 1)
        assert await ninth.inner_text("h1") == "Models"
        await photographs.take(pages[-1], "turns")
        await standing.tell(queries([5_000_000] * 40))
        for page in pages:
            await until(page, f"{ANSWERED} === '40'", timeout_s=40)
        for page in pages[:4]:
            await page.close()
        await expect(pages[4].locator("#connection")).to_be_hidden()
        await browser.close_pages()


async def test_a_page_that_slept_says_how_old_it_is_and_catches_up(
    browser: Browsing, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    """The computer sleeps for an hour: its timers stand still, and its connection is dead."""
    browser.tolerate("ERR_")
    page = await browser.page()
    await page.clock.install()
    await standing.tell(*beginning(), a_run("r0")[0])
    await page.goto(f"{running.url}/evaluations/{E}")
    await until(page, "document.getElementById('log').innerText.includes('starts')")
    await page.wait_for_timeout(200)
    await page.route("**/events*", lambda route: route.abort())
    await page.clock.fast_forward(3_600_000)
    await until(page, f"{BANNER}.textContent.includes('60 min old')")
    await photographs.take(page, "slept")
    await page.unroute("**/events*")
    await try_now(page)
    await until(page, f"{BANNER}.hidden")
    await standing.tell(queries([5_000_000] * 40))
    await until(page, f"{ANSWERED} === '40'")


async def test_a_hidden_page_leaves_its_connection_to_others(
    browser: Browsing, running: Running, page: Page, standing: StandIns
) -> None:
    await standing.tell(*beginning(), a_run("r0")[0])
    await page.goto(f"{running.url}/evaluations/{E}")
    await until(page, "document.getElementById('log').innerText.includes('starts')")
    show = """(isHidden) => {
      Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    async with page.expect_event("requestfailed", lambda request: "/events" in request.url):
        await page.evaluate(show, True)
    await standing.tell(queries([5_000_000] * 40))
    await page.wait_for_timeout(300)
    assert await page.evaluate(ANSWERED) == "0"
    async with page.expect_response("**/events*"):
        await page.evaluate(show, False)
    await page.wait_for_timeout(200)
    await standing.tell(queries([5_000_000] * 20, sequence=1))
    await until(page, f"{ANSWERED} === '20'")
    # What came while nobody watched is no part of this, and the page says so.
    assert "only what came since" in await page.inner_text("#live-run")
    assert "others came before" in await page.inner_text("#runs [data-run=r0]")
