"""Pages of one real browser, and a gateway over a memory bus to show in them.

The browser is started once: its tests share an event loop, and so do their asynchronous fixtures,
which are `shared_loop` fixtures.
"""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from mlscope.bus.bus import Bus
from mlscope.testing.memory_bus import MemoryServer, connect
from services.gateway import routes
from services.gateway.charts.drawing import Pictures
from tests.browser.chromium import Browsing, find_chromium, started_browser
from tests.browser.modules import serving
from tests.browser.photographs import Photographs
from tests.services.gateway.conftest import Running, serving_gateway
from tests.stand_ins import StandIns, stand_ins
from tests.standing import server

__all__ = ["server"]

shared_loop = partial(pytest_asyncio.fixture, loop_scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of this folder share the browser's event loop."""
    for item in items:
        if pytest_asyncio.is_async_test(item) and item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@shared_loop(scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """Lend the browser that all tests of this process share."""
    program = find_chromium()
    if program is None:
        pytest.skip("NO BROWSER: pages were not tested; install chromium")
    async with started_browser(program) as browser:
        yield browser


@shared_loop
async def browser(chromium: Browser) -> AsyncIterator[Browsing]:
    """Lend a browser; the test fails when a page calls another machine or logs an error."""
    browsing = Browsing(chromium)
    yield browsing
    await browsing.close_pages()
    assert browsing.complaints() == []


@shared_loop
async def page(browser: Browsing) -> Page:
    """Open an empty page, 1280 pixels wide and light; `browser.page()` opens others."""
    return await browser.page()


@shared_loop
async def bus(server: MemoryServer) -> AsyncIterator[Bus]:
    async with connect(server, "gateway") as bus:
        yield bus


@shared_loop
async def standing(server: MemoryServer) -> AsyncIterator[StandIns]:
    async with stand_ins(server) as standing:
        yield standing


class SharedPictures(Pictures):
    """Pictures of every gateway of the session: the process that draws starts slowly."""

    async def close(self) -> None:
        """Let the next gateway draw on."""

    async def end(self) -> None:
        """End the process."""
        await super().close()


@shared_loop(scope="session")
async def pictures() -> AsyncIterator[SharedPictures]:
    """Lend what draws charts to one gateway after the other."""
    pictures = SharedPictures()
    yield pictures
    await pictures.end()


@shared_loop
async def running(
    browser: Browsing,
    bus: Bus,
    standing: StandIns,
    pictures: SharedPictures,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Running]:
    """Run a gateway until the pages that talk to it are closed."""
    monkeypatch.setattr(routes, "Pictures", lambda: pictures)
    async with serving_gateway(bus) as running:
        yield running
        await browser.close_pages()


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
