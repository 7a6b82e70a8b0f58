"""The gateway's JavaScript modules, each file of tests in a page of its own."""

import pytest
from playwright.async_api import Page

from tests.browser.modules import failures_of, files_of_tests


@pytest.mark.parametrize("file", files_of_tests())
async def test_a_module_does_what_it_says(page: Page, modules_url: str, file: str) -> None:
    failures = await failures_of(page, modules_url, file)
    assert not failures, "\n".join(failures)
