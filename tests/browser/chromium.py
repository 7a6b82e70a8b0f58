"""Debian's chromium, driven by playwright: a page that errs or reaches out fails its test."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, ConsoleMessage, Error, Page, Request, async_playwright

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    # No name is resolved: a page that needs another machine fails here as it would offline.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_LOCAL_SCHEMES = {"about", "blob", "data"}
HEIGHT_PX = 900


def find_chromium() -> str | None:
    """Return the program, None when this machine has none."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next((program for name in names if (program := shutil.which(name))), None)


class Browsing:
    """A browser; `trouble` collects what its pages complain of and where else they call."""

    def __init__(self, browser: Browser) -> None:
        """Take a started `browser`."""
        self.browser = browser
        self.trouble: list[str] = []
        self._tolerated: list[str] = []

    async def page(self, *, width: int = 1280, scheme: str = "light", **options: Any) -> Page:
        """Open an empty page in a context of its own.

        `width`: of the window, in CSS pixels; below 600 it is a phone with a touch screen.
        `scheme`: `light` or `dark`. `options` go to playwright's `new_context`.
        """
        is_phone = width < 600
        context = await self.browser.new_context(
            viewport={"width": width, "height": HEIGHT_PX},
            color_scheme=scheme,
            is_mobile=is_phone,
            has_touch=is_phone,
            **options,
        )
        context.on("request", self._check_address)
        context.on("console", self._check_message)
        context.on("weberror", lambda raised: self.trouble.append(str(raised.error)))
        return await context.new_page()

    async def close_pages(self) -> None:
        """Close every page, and forget what it kept."""
        for context in self.browser.contexts:
            await context.close()

    def tolerate(self, text: str) -> None:
        """Let console messages that contain `text` pass: the test brings them about."""
        self._tolerated.append(text)

    def complaints(self) -> list[str]:
        """Return the trouble that nobody tolerates."""
        return [line for line in self.trouble if not any(text in line for text in self._tolerated)]

    def _check_address(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in _LOCAL_SCHEMES and address.hostname not in _LOOPBACK:
            self.trouble.append(f"the page calls another machine: {request.url}")

    def _check_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.trouble.append(f"{message.text} ({message.location.get('url', '')})")


@asynccontextmanager
async def started_browser(program: str) -> AsyncIterator[Browser]:
    """Run a headless browser, started from `program`."""
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=list(_FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def browsing(program: str) -> AsyncIterator[Browsing]:
    """Lend pages of a headless browser of its own, started from `program`."""
    async with started_browser(program) as browser:
        yield Browsing(browser)


async def until(page: Page, script: str, timeout_s: float = 20.0) -> None:
    """Wait until `script` is true in `page`, `timeout_s` at most.

    The error shows the page's text.
    """
    for _ in range(int(timeout_s / 0.05)):
        try:
            if await page.evaluate(f"Boolean({script})"):
                return
        except Error as error:
            # The page went to another address while it was asked; the next one is asked again.
            if "Execution context was destroyed" not in error.message:
                raise
        await asyncio.sleep(0.05)
    text = await page.evaluate("document.body.innerText")
    raise AssertionError(f"never: {script}\n{text}")
