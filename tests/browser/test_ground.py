"""The ground of the browser's tests notices what it is there to notice."""

import hashlib
import tomllib
from pathlib import Path

import pytest
from playwright.async_api import Page

from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import Browsing
from tests.browser.modules import failures_of

_VENDOR = Path(__file__).with_name("vendor")


async def test_a_call_to_another_machine_is_noticed(browser: Browsing, page: Page) -> None:
    await page.set_content("<img src='http://example.org/x.png' alt=''>")
    await page.wait_for_timeout(50)
    assert any("another machine: http://example.org" in line for line in browser.complaints())
    browser.trouble.clear()


async def test_an_error_in_the_console_is_noticed_unless_tolerated(
    browser: Browsing, page: Page
) -> None:
    await page.evaluate("console.error('torn'), setTimeout(() => { throw new Error('lost'); })")
    await page.wait_for_timeout(50)
    assert [line.split(" (")[0] for line in browser.complaints()] == ["torn", "lost"]
    browser.tolerate("torn")
    browser.tolerate("lost")
    assert browser.complaints() == []


async def test_what_axe_finds_serious_fails(page: Page) -> None:
    await page.set_content("<html lang=en><title>t</title><main><h1>t</h1><img src=data:,></main>")
    with pytest.raises(AssertionError, match="image-alt"):
        await assert_accessible(page)
    await page.evaluate("document.querySelector('img').alt = 'a picture'")
    await assert_accessible(page)


async def test_a_file_without_tests_is_a_failure(page: Page, modules_url: str) -> None:
    assert await failures_of(page, modules_url, "check.js") == ["check.js exports no test"]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_page_has_the_width_and_scheme_asked_for(
    browser: Browsing, width: int, scheme: str
) -> None:
    page = await browser.page(width=width, scheme=scheme)
    await page.set_content("<meta name=viewport content='width=device-width'>")
    assert await page.evaluate("innerWidth") == width
    assert await page.evaluate(f"matchMedia('(prefers-color-scheme: {scheme})').matches")


def test_vendored_files_are_those_of_the_manifest() -> None:
    manifest = tomllib.loads((_VENDOR / "manifest.toml").read_text("utf-8"))
    for library in manifest["library"]:
        data = (_VENDOR / library["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == library["sha256"], library["file"]
        assert (_VENDOR / library["licence_file"]).is_file()
