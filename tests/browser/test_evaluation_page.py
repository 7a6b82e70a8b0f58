"""The page of an evaluation in a real browser: live while it runs, the record afterwards."""

import pytest
from playwright.async_api import Page, expect

from schemas.analysis import Column, Table
from schemas.evaluation import EvaluationAnalyzed
from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import Browsing, until
from tests.browser.photographs import Photographs
from tests.browser.traces import inference, serve
from tests.services.gateway.conftest import Running
from tests.services.gateway.pages.results.test_histograms import a_bar
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, ending, queries, spans, whole_story

STATE = "document.querySelector('#state')?.textContent"


def cell(run: str, field: str) -> str:
    """Return the script that reads a cell of a run's row."""
    row = f"document.querySelector('#runs [data-run={run}]')"
    return f"{row}?.querySelector('[data-field={field}]').textContent"


async def test_a_page_follows_its_evaluation_to_the_record(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    await standing.tell(*beginning()[:1])
    await page.goto(f"{running.url}/evaluations/{E}")
    await until(page, f"{STATE} === 'requested'")
    await standing.tell(*beginning()[1:])
    await until(
        page, f"{STATE} === 'planned' && document.querySelectorAll('#runs [data-run]').length === 2"
    )
    started, completed, recorded = a_run("r0")
    await standing.tell(started, queries([5_000_000] * 40), spans(120))
    await until(page, f"{STATE} === 'running' && {cell('r0', 'answered')} === '40'")
    assert await page.evaluate(cell("r0", "spans")) == "120"
    await until(page, f"{cell('r0', 'p50')}.endsWith('\xa0ms')")
    await until(page, "document.querySelectorAll('#histogram rect.bar').length === 1")
    log = await page.inner_text("#log")
    assert "It is planned: 2 runs" in log
    assert "evaluation.planned" not in log
    await photographs.take(page, "evaluation-live")
    await standing.tell(completed, recorded, *a_run("r1"), *ending())
    await until(page, "document.querySelector('[data-table=latency]')")
    assert await page.evaluate(STATE) == "analyzed"
    assert await page.evaluate("document.querySelector('#evaluation').dataset.live") == "no"


async def test_a_page_that_comes_late_shows_what_has_happened_so_far(
    browser: Browsing, page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    await page.goto(f"{running.url}/evaluations/{E}")
    await standing.tell(a_run("r0")[0])
    await until(page, f"{cell('r0', 'state')} === 'started'")
    await standing.tell(queries([5_000_000] * 40))
    await until(page, f"{cell('r0', 'answered')} === '40'")
    other = await browser.page()
    await other.goto(f"{running.url}/evaluations/{E}")
    await until(other, f"{cell('r0', 'answered')} === '40'")
    await until(other, "document.querySelectorAll('#histogram rect.bar').length === 1")


async def test_the_record_is_whole_without_a_script(
    browser: Browsing, running: Running, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    page = await browser.page(java_script_enabled=False)
    await page.goto(f"{running.url}/evaluations/{E}")
    text = await page.inner_text("body")
    assert "Half of the queries took 5\xa0ms." in text
    assert "recorded" in text


@pytest.mark.long
async def test_the_record_is_accessible(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    await standing.tell(*whole_story())
    await page.goto(f"{running.url}/evaluations/{E}")
    await assert_accessible(page)
    await photographs.take(page, "evaluation-record")


def distribution() -> Table:
    """Return the distribution of latency of run r0: many queries, and query 57 far from them."""
    texts = ("run", "scenario", "level", "agent")
    rows = [a_bar(178, 99, 0.99, 4), a_bar(200, 1, 1.0, 57)]
    columns = tuple(
        Column(name=name, type="text" if name in texts else "float") for name in rows[0]
    )
    return Table(
        name="latency_histogram",
        title="Distribution",
        columns=columns,
        rows=tuple(tuple(row.values()) for row in rows),
    )


@pytest.mark.parametrize("has_scripts", [True, False])
async def test_a_bar_of_the_record_opens_its_slowest_query(
    browser: Browsing,
    running: Running,
    standing: StandIns,
    photographs: Photographs,
    has_scripts: bool,
) -> None:
    standing.held = [distribution()]
    analyzed = EvaluationAnalyzed(evaluation=E, tables=("latency_histogram",))
    await standing.tell(*whole_story()[:-1], analyzed)
    page = await browser.page(java_script_enabled=has_scripts)
    await serve(page, inference(queries=60), {})
    await page.goto(f"{running.url}/evaluations/{E}")
    bars = page.locator("#histograms .spread a")
    await expect(bars).to_have_count(2)
    if has_scripts:
        await assert_accessible(page)
        await photographs.take(page, "evaluation-histograms")
    await bars.last.click()
    await page.wait_for_url("**/trace?run=r0&*")
    if has_scripts:
        await expect(page.locator("[data-part=details] h3")).to_have_text("query 57")


async def test_a_bar_of_a_live_run_leads_to_its_slowest_query(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*beginning())
    await page.goto(f"{running.url}/evaluations/{E}")
    # The page hears queries once it has heard that the run started.
    await standing.tell(a_run("r0")[0])
    await until(page, f"{cell('r0', 'state')} === 'started'")
    await standing.tell(queries([5_000_000] * 40 + [90_000_000]))
    bars = page.locator("#histogram a")
    await expect(bars).to_have_count(2)
    await assert_accessible(page)
    address = f"/evaluations/{E}/trace?run=r0&query=40"
    await expect(bars.last).to_have_attribute("href", address)
