"""Open pages whose gateway or broker goes away: they say so, and go on when it is back."""

from playwright.async_api import Page, expect

from mlscope.testing.memory_bus import MemoryServer
from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import Browsing, until
from tests.browser.conftest import shared_loop
from tests.browser.photographs import Photographs
from tests.browser.states.gateways import gateway, try_now
from tests.services.gateway.conftest import Running
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, queries

LIVE = {"home": "/", "evaluation": f"/evaluations/{E}", "trace": f"/evaluations/{E}/trace?run=r0"}
BANNER = "document.getElementById('connection')"


@shared_loop
async def watched(browser: Browsing, running: Running, standing: StandIns) -> Running:
    """Return a gateway with an evaluation under way; its pages' streams are cut by tests."""
    for expected in ("ERR_", "Failed to load resource"):
        browser.tolerate(expected)
    await standing.tell(*beginning(), a_run("r0")[0], queries([5_000_000] * 40))
    return running


async def is_live(page: Page) -> None:
    """Wait until the page says nothing of a trouble."""
    await until(page, f"{BANNER}.hidden")


async def opened(browser: Browsing, url: str) -> dict[str, Page]:
    """Open each live page, and wait until it has heard of its stream."""
    pages = {name: await browser.page() for name in LIVE}
    for name, page in pages.items():
        await page.goto(f"{url}{LIVE[name]}")
    for page in pages.values():
        await until(page, "document.readyState === 'complete'")
        await page.wait_for_timeout(200)
        await is_live(page)
    return pages


async def test_pages_outlive_their_gateway(
    server: MemoryServer,
    watched: Running,
    browser: Browsing,
    standing: StandIns,
    photographs: Photographs,
) -> None:
    pages = await opened(browser, watched.url)
    watched.stop.set()
    await watched.serving
    for name, page in pages.items():
        await until(page, f"{BANNER}.textContent.includes('is cut')")
        assert (await page.inner_text("#connection")).startswith("Not live: ")
        assert await page.locator(".stale").count() == 1
        await photographs.take(page, f"cut-{name}")
    await assert_accessible(pages["evaluation"])
    await standing.tell(*a_run("r0")[1:], a_run("r1")[0])
    async with gateway(server, watched.port):
        for page in pages.values():
            await try_now(page)
            await is_live(page)
        state = "document.querySelector('#runs [data-run=r1]').dataset.state"
        await until(pages["evaluation"], f"{state} === 'started'")
        await until(pages["home"], "document.querySelector('#now [data-run=r1]')")
        await browser.close_pages()


async def test_pages_say_that_the_broker_is_gone(
    server: MemoryServer, watched: Running, browser: Browsing, photographs: Photographs
) -> None:
    pages = await opened(browser, watched.url)
    server.stop()
    for name, page in pages.items():
        await until(page, f"{BANNER}.textContent.includes('The message broker does not answer')")
        await photographs.take(page, f"no-broker-{name}")
    server.start()
    for page in pages.values():
        await is_live(page)


async def test_a_page_asked_for_without_a_broker_says_so_at_once(
    server: MemoryServer, watched: Running, page: Page, photographs: Photographs
) -> None:
    server.stop()
    for path in LIVE.values():
        response = await page.goto(f"{watched.url}{path}", timeout=5000)
        assert getattr(response, "status", None) == 503
        text = await page.inner_text("main")
        assert "the message broker does not answer" in text
        assert "mlscope status" in text
    await assert_accessible(page)
    await photographs.take(page, "no-broker")
    server.start()
    await page.click("text=Try again")
    await expect(page.locator("#timeline")).to_be_visible()


async def test_a_full_gateway_is_said_with_its_limit(
    watched: Running, browser: Browsing, photographs: Photographs
) -> None:
    """Four streams are allowed here, and taken by others."""
    pages = [await browser.page() for _ in range(5)]
    for page in pages:
        await page.goto(f"{watched.url}/")
        await page.wait_for_timeout(100)
    await until(pages[-1], f"{BANNER}.textContent.includes('4 live streams are open')")
    assert "MLSCOPE_MAX_LIVE_CLIENTS" in await pages[-1].inner_text("#connection")
    await photographs.take(pages[-1], "full")
    await pages[0].close()
    await try_now(pages[-1])
    await is_live(pages[-1])


async def test_a_session_that_ended_leads_to_the_login(
    watched: Running, page: Page, photographs: Photographs
) -> None:
    refused = {"accepted": False, "error": "invalid", "message": "a bearer token is required"}
    await page.route("**/events*", lambda route: route.fulfill(status=401, json=refused))
    await page.goto(f"{watched.url}/evaluations/{E}")
    await until(page, f"{BANNER}.textContent.includes('not logged in any more')")
    assert await page.get_attribute("#connection a", "href") == "/login"


async def test_an_answer_of_another_version_is_said(
    watched: Running, page: Page, standing: StandIns, photographs: Photographs
) -> None:
    standing.status_answer = {"evaluation": E, "state": "dreaming"}
    response = await page.goto(f"{watched.url}/evaluations/{E}")
    assert response is not None
    assert response.status == 503
    text = await page.inner_text("main")
    assert "of another version of mlscope" in text
    assert "state" in text
    await photographs.take(page, "other-version")
