"""Pages of a real browser, and a gateway over a memory bus to show in them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page

from tests.browser.chromium import Browsing, browsing, find_chromium
from tests.browser.modules import serving
from tests.browser.photographs import Photographs
from tests.services.gateway.conftest import Running, bus, server, standing
from tests.services.gateway.conftest import running as served

__all__ = ["bus", "served", "server", "standing"]


@pytest.fixture
async def browser() -> AsyncIterator[Browsing]:
    """Lend a browser; the test fails when a page calls another machine or logs an error."""
    program = find_chromium()
    if program is None:
        pytest.skip("NO BROWSER: pages were not tested; install chromium")
    async with browsing(program) as browser:
        yield browser
    assert browser.complaints() == []


@pytest.fixture
async def page(browser: Browsing) -> Page:
    """Open an empty page, 1280 pixels wide and light; `browser.page()` opens others."""
    return await browser.page()


@pytest.fixture
async def running(browser: Browsing, served: Running) -> AsyncIterator[Running]:
    """Run a gateway until the pages that talk to it are closed."""
    yield served
    for context in browser.browser.contexts:
        await context.close()


@pytest.fixture(scope="session")
def modules_url() -> Iterator[str]:
    """Serve JavaScript modules and their tests."""
    with serving() as address:
        yield address


@pytest.fixture
def photographs(request: pytest.FixtureRequest) -> Photographs:
    """Take pictures into the folder of `--photographs`."""
    folder = request.config.getoption("photographs")
    return Photographs(Path(folder) if folder else None)
