"""Pages without scripts, without storage, enlarged, and printed: each is whole."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page

from tests.browser.chromium import Browsing, until
from tests.browser.conftest import shared_loop
from tests.browser.photographs import Photographs
from tests.services.gateway.conftest import Running
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, whole_story

OVER = "fedcba9876543210"
PAGES = {
    "home": "/",
    "evaluations": "/evaluations",
    "live": f"/evaluations/{E}",
    "record": f"/evaluations/{OVER}",
    "trace": f"/evaluations/{OVER}/trace",
    "analysis": f"/evaluations/{OVER}/analyses/latency",
    "compared": f"/compare?runs={OVER},{E}",
    "report": f"/evaluations/{OVER}/report",
    "new": "/new",
    "models": "/models",
}
SOME = ("home", "live", "trace", "compared", "new")
"""Pages of every kind: of a list, of a run under way, of a picture, of tables, of a form."""
some_pages = pytest.mark.parametrize(
    "names",
    [SOME, pytest.param(tuple(sorted(PAGES.keys() - set(SOME))), marks=pytest.mark.long)],
    ids=["some", "others"],
)


@shared_loop
async def house(browser: Browsing, running: Running, standing: StandIns) -> AsyncIterator[str]:
    """Lend the address of a gateway with an evaluation that runs and one that has ended."""
    browser.tolerate("503")  # spans, that no stand-in has
    await standing.tell(*whole_story(OVER), *beginning(), a_run("r0")[0])
    yield running.url


async def is_loading(page: Page) -> bool:
    """Tell whether the page still promises something that is to come."""
    text = await page.inner_text("main")
    return "Loading" in text or "aiting for" in text


async def test_without_scripts_no_page_waits_for_one(browser: Browsing, house: str) -> None:
    page = await browser.page(java_script_enabled=False)
    for name, path in PAGES.items():
        await page.goto(f"{house}{path}")
        assert await page.inner_text("h1"), name
        assert not await is_loading(page), name
        for hidden in ("#theme", "#connection"):
            assert await page.locator(hidden).is_hidden(), (name, hidden)
    for name in ("live", "home"):
        await page.goto(f"{house}{PAGES[name]}")
        note = "Without JavaScript this page does not update itself"
        assert note in await page.inner_text("main"), name


@some_pages
async def test_without_storage_every_page_works(
    browser: Browsing, house: str, names: tuple[str, ...]
) -> None:
    """A browser that denies storage throws at the very name; a page that errs fails its test."""
    page = await browser.page()
    denied = "get() { throw new DOMException('denied', 'SecurityError'); }"
    for name in ("localStorage", "sessionStorage"):
        await page.add_init_script(f"Object.defineProperty(window, '{name}', {{ {denied} }})")
    for name in names:
        await page.goto(f"{house}{PAGES[name]}")
        await page.wait_for_load_state()
    await page.goto(f"{house}{PAGES['live']}")
    await until(page, "document.getElementById('log').innerText.includes('starts')")


@some_pages
async def test_at_200_percent_everything_is_in_reach(
    browser: Browsing, house: str, names: tuple[str, ...]
) -> None:
    """A window of 1280 pixels has 640 of a page's at 200%."""
    page = await browser.page(width=640, device_scale_factor=2)
    for name in names:
        await page.goto(f"{house}{PAGES[name]}")
        await page.wait_for_load_state()
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= 640, f"{name} is {width} pixels wide"
        cut = """[...document.querySelectorAll("main :is(a, button, h1, h2)")].filter((part) =>
          part.getClientRects().length && !part.closest(".wide, .unseen, .hidden, pre") &&
          getComputedStyle(part).overflowX === "visible" &&
          part.getBoundingClientRect().right > innerWidth + 1).map((part) => part.outerHTML)"""
        assert await page.evaluate(cut) == [], name


@some_pages
@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.long), "dark"])
async def test_paper_is_light_and_has_nothing_to_click(
    browser: Browsing, house: str, scheme: str, names: tuple[str, ...], photographs: Photographs
) -> None:
    page = await browser.page(width=720, scheme=scheme)
    for name in names:
        await page.goto(f"{house}{PAGES[name]}")
        await page.wait_for_load_state()
        await page.emulate_media(media="print", color_scheme=scheme)
        ink = await page.evaluate("getComputedStyle(document.body).color")
        assert ink == "rgb(26, 28, 32)", f"{name} prints {ink}"
        for part in ("nav", "#theme", "main button", "main .button", "details:not([open])"):
            for one in await page.locator(part).all():
                assert await one.is_hidden(), f"{name} prints {part}"
        if photographs.folder is not None:
            photographs.folder.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=photographs.folder / f"print-{name}.png", full_page=True)
        await page.emulate_media(media="screen")
