"""Pages in a real browser are as wide as their window: the results need no scrolling sideways."""

from typing import Any

import pytest
from playwright.async_api import Page

from schemas.analysis import Column, Table
from services.analyzer.tables.latency import ANALYSIS
from tests.browser.chromium import Browsing
from tests.services.gateway.conftest import Running
from tests.stories import E, StandIns, a_model, whole_story

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
        "/evaluations",
        "/models",
    ],
)
@pytest.mark.parametrize("width", [1280, 390])
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
