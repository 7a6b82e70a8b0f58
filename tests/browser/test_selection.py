"""Evaluations are selected and compared by the same control on every page that lists them."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.chromium import Browsing, until
from tests.browser.conftest import shared_loop
from tests.browser.photographs import Photographs
from tests.services.analyzer.exploring.loads import a_load
from tests.services.gateway.conftest import Running
from tests.services.gateway.pages.test_home import an_agent
from tests.stand_ins import StandIns
from tests.stories import E, whole_story

OTHER = "fedcba9876543210"
THIRD = "00112233445566aa"
LISTS = {
    "home": "/",
    "evaluations": "/evaluations",
    "model": "/models/tiny/1.0.0",
    "agent": "/agents/a1",
    "explore": "/explore/history?model=tiny",
}


@shared_loop
async def listed(running: Running, standing: StandIns) -> Running:
    """Return a gateway that lists two evaluations on every page of `LISTS`."""
    standing.agents = (an_agent(),)
    standing.loads = [
        a_load(evaluation=name, ms=ms, requested=f"2026-01-0{day}T00:00:00Z")
        for day, (name, ms) in enumerate([(E, 10), (OTHER, 12)], 1)
    ]
    await standing.tell(*whole_story(), *whole_story(OTHER))
    return running


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name in ("agent", "model"))) for name in LISTS],
)
async def test_two_evaluations_are_selected_and_compared(
    browser: Browsing, listed: Running, photographs: Photographs, name: str
) -> None:
    page = await browser.page()
    await page.goto(f"{listed.url}{LISTS[name]}")
    assert await page.is_disabled("#compare")
    await _select(page, E, OTHER)
    assert await page.inner_text("#compare") == "Compare 2 selected"
    await photographs.take(page, f"selected-{name}")
    await page.focus("#compare")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/compare?*")
    assert await page.locator(".rival").count() == 2


async def test_home_keeps_what_is_selected_when_it_changes(
    browser: Browsing, listed: Running, standing: StandIns
) -> None:
    page = await browser.page()
    await page.goto(listed.url)
    await _select(page, E, OTHER)
    await standing.tell(*whole_story(THIRD))
    await until(page, f"document.querySelector('input[value=\"{THIRD}\"]')")
    assert await page.inner_text("#compare") == "Compare 2 selected"
    await _select(page, THIRD)
    assert await page.inner_text("#compare") == "Compare 3 selected"


@pytest.mark.parametrize(
    "focused",
    [
        pytest.param("#compare", marks=pytest.mark.long),
        f"input[value='{E}']",
        "#latest .wide",
    ],
)
async def test_home_keeps_the_focus_when_it_changes(
    browser: Browsing, listed: Running, standing: StandIns, focused: str
) -> None:
    page = await browser.page()
    await page.goto(listed.url)
    await _select(page, E, OTHER)
    await page.focus(focused)
    await standing.tell(*whole_story(THIRD))
    await until(page, f"document.querySelector('input[value=\"{THIRD}\"]')")
    await expect(page.locator(focused)).to_be_focused()


async def _select(page: Page, *evaluations: str) -> None:
    for evaluation in evaluations:
        await page.focus(f"input[value='{evaluation}']")
        await page.keyboard.press("Space")
