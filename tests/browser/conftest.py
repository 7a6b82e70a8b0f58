"""A page of a real browser, on a gateway over a memory bus."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.browser.chromium import Page, browsing, find_chromium
from tests.services.gateway.conftest import bus, running, server, standing

__all__ = ["bus", "running", "server", "standing"]


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    program = find_chromium()
    if program is None:
        pytest.skip("NO BROWSER: pages were not tested; install chromium")
    async with browsing(program, tmp_path) as page:
        yield page
