"""Pages in a real browser are as wide as their window: the results need no scrolling sideways."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Page

from schemas.analysis import Column, Estimate, Headline, Table
from schemas.evaluation import EvaluationAnalyzed, EvaluationRequested
from schemas.request import Evaluate
from services.analyzer.tables.latency import ANALYSIS
from tests.browser.chromium import Browsing, until
from tests.browser.conftest import shared_loop
from tests.services.gateway.conftest import Running
from tests.stand_ins import StandIns
from tests.stories import E, a_model, a_run, beginning, queries, whole_story

_KERNEL = "sm80_xmma_fprop_implicit_gemm_indexed_f32f32_f32f32_f32_" * 4
_TEXTS = {"run": "b16-poisson-framework", "scenario": "poisson", "level": "framework"}


def _value(column: Column, row: int) -> Any:
    if column.type == "text":
        return _TEXTS.get(column.name, "trimmed mean 14.6 ms, 90th percentile 28.6 ms")
    return 128 if column.type == "int" else 1.2345e7 * (row + 1)


def latency() -> Table:
    """Return the analyzer's own latency table, all cells filled and with a kernel's name in it."""
    rows = tuple(tuple(_value(column, row) for column in ANALYSIS.columns) for row in range(4))
    verdict = f"the longest, {_KERNEL}, takes 413 µs"
    return Table(
        name="latency", title="Latency", verdict=verdict, columns=ANALYSIS.columns, rows=rows
    )


async def _open(browser: Browsing, url: str, width: int) -> Page:
    page = await browser.page(width=width)
    await page.goto(url)
    await page.wait_for_selector("h1")
    return page


@pytest.mark.parametrize(
    "path",
    [
        f"/evaluations/{E}",
        f"/evaluations/{E}/analyses",
        f"/evaluations/{E}/analyses/latency",
        # `test_pages` opens these two in such windows, too, and has stranger names in them.
        pytest.param("/evaluations", marks=pytest.mark.long),
        pytest.param("/models", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.long), 390])
async def test_no_page_is_wider_than_its_window(
    browser: Browsing, running: Running, standing: StandIns, width: int, path: str
) -> None:
    standing.held = [latency()]
    await standing.tell(*whole_story())
    page = await _open(browser, f"{running.url}{path}", width)
    assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_the_results_fit_a_laptop(
    browser: Browsing, running: Running, standing: StandIns
) -> None:
    standing.held = [latency()]
    await standing.tell(*whole_story())
    page = await _open(browser, f"{running.url}/evaluations/{E}", 1280)
    table = "document.querySelector('[data-table=latency] .wide')"
    assert await page.evaluate(f"{table}.scrollWidth <= {table}.clientWidth")
    assert await page.evaluate(f"{table}.innerText.includes('p99')")


async def test_the_models_fit_a_laptop_whatever_they_say_of_their_accuracy(
    browser: Browsing, running: Running, standing: StandIns
) -> None:
    """The longest names, frameworks and metrics of the catalog leave room for the last column."""
    model = a_model().model_copy(
        update={
            "name": "torchvision-fasterrcnn-mobilenet-v3-large-320-fpn-coco-v1-instance",
            "task": "semantic segmentation",
            "attributes": {
                "mean average precision on COCO-val2017, classes of Pascal VOC 2012": 22.8,
                "parameters": 123_456_789,
                "weights_megabytes": 1234.5,
            },
        }
    )
    standing.models = (model, a_model())
    page = await _open(browser, f"{running.url}/models", 1280)
    table = "document.querySelector('.models')"
    assert await page.evaluate(f"{table}.innerText.includes('mean average precision')")
    assert await page.evaluate(f"{table}.scrollWidth <= {table}.clientWidth")


CUT = """([selector, most]) => [...document.querySelectorAll(selector)].flatMap((element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  const { left, right, width } = range.getBoundingClientRect();
  const isSeen = element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const text = `${element.textContent.trim()} from ${left} to ${right} of ${most}`;
  return isSeen && width > 0 && left >= 0 && right <= most ? [] : [text];
})"""
"""Those elements of a selector whose text is not seen, or not within a width in pixels.

A phone's `innerWidth` grows with what is too wide for it.
"""
LIVE_CELLS = "#runs [data-run=r0] :is([data-field=p50], [data-field=p90], [data-field=rate])"


async def assert_within(page: Page, selector: str, *, at_least: int) -> None:
    """Check that the texts of `at_least` so many elements are seen within the window of a page."""
    assert await page.locator(selector).count() >= at_least
    size = page.viewport_size
    assert size is not None
    assert await page.evaluate(CUT, [selector, size["width"]]) == []


@shared_loop
async def phone(browser: Browsing, running: Running, standing: StandIns) -> Page:
    """Return the page of an evaluation on a phone that has heard queries, slow and quick ones."""
    await standing.tell(*beginning())
    page = await browser.page(width=390)
    await page.goto(f"{running.url}/evaluations/{E}")
    # The page hears queries once it has heard that the run started.
    await standing.tell(a_run("r0")[0])
    state = "document.querySelector('[data-run=r0] [data-field=state]').textContent"
    await until(page, f"{state} === 'started'")
    for sequence in range(2):
        slow = [123_456_789 + 1_000_000_000 * sequence] * 40
        await standing.tell(queries(slow, sequence=sequence))
        answered = "document.querySelector('[data-run=r0] [data-field=answered]').textContent"
        await until(page, f"{answered} === '{40 * sequence + 40}'")
    return page


async def test_a_phone_shows_the_figures_of_a_live_run(phone: Page) -> None:
    await assert_within(phone, LIVE_CELLS, at_least=3)
    figures = "#live :is([data-figure=throughput], [data-figure=latency])"
    await assert_within(phone, figures, at_least=2)


async def test_a_phone_shows_the_figures_of_what_runs_on_the_first_page(
    phone: Page, running: Running, standing: StandIns
) -> None:
    await phone.goto(running.url)
    rate = "document.querySelector('.open [data-field=rate]').textContent"
    for sequence in range(2, 100):
        await standing.tell(queries([123_456_789] * 40, sequence=sequence))
        await asyncio.sleep(0.2)
        if await phone.evaluate(f"Number.parseFloat({rate}) > 0"):
            break
    fields = ".open :is([data-field=rate], [data-field=p50], [data-field=p99])"
    await assert_within(phone, fields, at_least=3)


@pytest.mark.parametrize("path", ["/", "/evaluations"])
async def test_a_phone_shows_the_figures_of_what_was_measured(
    browser: Browsing, running: Running, standing: StandIns, path: str
) -> None:
    headline = Headline(
        run="r0",
        agent="a" * 60,
        scenario="poisson",
        batch_size=128,
        statistic="p99",
        latency_ns=Estimate(value=1.2345e9, low=1.2e9, high=1.25e9),
        p90_ns=Estimate(value=1.1345e9, low=1.1e9, high=1.15e9),
        samples_per_s=Estimate(value=123_456.0, low=123_000.0, high=124_000.0),
    )
    analyzed = EvaluationAnalyzed(evaluation=E, tables=("latency",), headlines=(headline,))
    await standing.tell(*whole_story()[:-1], analyzed)
    page = await browser.page(width=390)
    await page.goto(f"{running.url}{path}")
    await assert_within(page, ".evaluations :is(.latency, .throughput) .figure", at_least=2)


async def test_the_choices_to_compare_fit_a_laptop_whatever_their_models_are_called(
    browser: Browsing, running: Running, standing: StandIns
) -> None:
    """A long name is wrapped, so that the other columns stay in view."""
    name = "torchvision-fasterrcnn-" + "x" * 220
    request = Evaluate(model=name)
    await standing.tell(EvaluationRequested(evaluation=E, request=request, requested_ns=1))
    page = await _open(browser, f"{running.url}/compare", 1280)
    table = "document.querySelector('.choose .wide')"
    assert await page.evaluate(f"{table}.innerText.includes('{name}')")
    assert await page.evaluate(f"{table}.scrollWidth <= {table}.clientWidth")


async def test_a_table_shows_at_which_side_more_of_it_is(
    browser: Browsing, running: Running, standing: StandIns
) -> None:
    standing.held = [latency()]
    await standing.tell(*whole_story())
    page = await _open(browser, f"{running.url}/evaluations/{E}/analyses/latency", 390)
    style = "getComputedStyle(document.querySelector('.wide'))"
    sides = f"['--before', '--after'].map((side) => {style}.getPropertyValue(side)).join()"
    await until(page, f"{sides} === '0px,-14.4px'")
    await page.evaluate("document.querySelector('.wide').scrollLeft = 1e6")
    await until(page, f"{sides} === '14.4px,0px'")
    await page.set_viewport_size({"width": 1280, "height": 900})
    await page.goto(f"{running.url}/status")
    await until(page, f"{sides} === '0px,0px'")
