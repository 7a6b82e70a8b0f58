"""The page of an evaluation in a real browser: live while it runs, the record afterwards."""

import pytest
from playwright.async_api import Page

from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import Browsing, until
from tests.browser.photographs import Photographs
from tests.services.gateway.conftest import Running
from tests.stories import E, StandIns, a_run, beginning, ending, queries, spans, whole_story

STATE = "document.querySelector('#state')?.textContent"


def cell(run: str, column: int) -> str:
    return f"document.querySelector('#runs tr[data-run={run}]')?.cells[{column}].textContent"


async def test_a_page_follows_its_evaluation_to_the_record(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*beginning()[:1])
    await page.goto(f"{running.url}/evaluations/{E}")
    await until(page, f"{STATE} === 'requested'")
    await standing.tell(*beginning()[1:])
    await until(
        page, f"{STATE} === 'planned' && document.querySelectorAll('#runs tr').length === 2"
    )
    started, completed, recorded = a_run("r0")
    await standing.tell(started, queries([5_000_000] * 40), spans(120))
    await until(page, f"{STATE} === 'running' && {cell('r0', 6)} === '40'")
    assert await page.evaluate(cell("r0", 8)) == "120"
    await until(page, f"{cell('r0', 9)}.endsWith(' ms')")
    await standing.tell(completed, recorded, *a_run("r1"), *ending())
    await until(page, "document.querySelector('[data-table=latency]')")
    assert await page.evaluate(STATE) == "analyzed"
    assert await page.evaluate("document.querySelector('#evaluation').dataset.live") == "no"


async def test_a_page_that_lost_its_gateway_comes_back_where_it_was(
    browser: Browsing, page: Page, running: Running, standing: StandIns
) -> None:
    browser.tolerate("ERR_INTERNET_DISCONNECTED")
    await standing.tell(*beginning())
    await page.goto(f"{running.url}/evaluations/{E}")
    await until(page, f"{STATE} === 'planned'")
    await page.context.set_offline(True)
    await standing.tell(*a_run("r0"))
    await page.context.set_offline(False)
    await standing.tell(*a_run("r1"))
    await until(page, f"{cell('r0', 5)} === 'recorded' && {cell('r1', 5)} === 'recorded'")


async def test_the_record_is_whole_without_a_script(
    browser: Browsing, running: Running, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    page = await browser.page(java_script_enabled=False)
    await page.goto(f"{running.url}/evaluations/{E}")
    text = await page.inner_text("body")
    assert "Half of the queries took 5 ms." in text
    assert "recorded" in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_record_is_accessible(
    browser: Browsing,
    running: Running,
    standing: StandIns,
    photographs: Photographs,
    scheme: str,
) -> None:
    await standing.tell(*whole_story())
    page = await browser.page(scheme=scheme)
    await page.goto(f"{running.url}/evaluations/{E}")
    await assert_accessible(page)
    await photographs.take(page, "evaluation-record")
