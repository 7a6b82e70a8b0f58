"""Pages in a real browser are as wide as their window: the results need no scrolling sideways."""

from typing import Any

import pytest

from schemas.analysis import Column, Table
from services.analyzer.tables.latency import ANALYSIS
from tests.browser.chromium import Page
from tests.services.gateway.conftest import Running
from tests.stories import E, StandIns, a_model, whole_story

_TEXTS = {"run": "b16-poisson-framework", "scenario": "poisson", "level": "framework"}


def _value(column: Column, row: int) -> Any:
    if column.type == "text":
        return _TEXTS.get(column.name, "trimmed mean 14.6 ms, 90th percentile 28.6 ms")
    return 128 if column.type == "int" else 1.2345e7 * (row + 1)


def latency() -> Table:
    """Return the analyzer's own latency table, all cells filled."""
    rows = tuple(tuple(_value(column, row) for column in ANALYSIS.columns) for row in range(4))
    return Table(name="latency", title="Latency", columns=ANALYSIS.columns, rows=rows)


async def _open(page: Page, url: str, width: int) -> None:
    await page.open("about:blank")
    sizes = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    await page.call("Emulation.setDeviceMetricsOverride", **sizes)
    await page.open(url)
    await page.until("document.readyState === 'complete' && document.querySelector('h1')")


@pytest.mark.parametrize("path", [f"/evaluations/{E}", "/evaluations", "/models"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_no_page_is_wider_than_its_window(
    page: Page, running: Running, standing: StandIns, width: int, path: str
) -> None:
    standing.held = [latency()]
    await standing.tell(*whole_story())
    await _open(page, f"{running.url}{path}", width)
    assert await page.value("document.documentElement.scrollWidth") <= width
    assert page.trouble == []


async def test_the_latency_table_fits_a_laptop(
    page: Page, running: Running, standing: StandIns
) -> None:
    standing.held = [latency()]
    await standing.tell(*whole_story())
    await _open(page, f"{running.url}/evaluations/{E}", 1280)
    table = "document.querySelector('[data-table=latency] .wide')"
    assert await page.value(f"{table}.scrollWidth <= {table}.clientWidth")
    assert await page.value(f"{table}.innerText.includes('service median')")


async def test_the_models_fit_a_laptop_whatever_they_say_of_their_accuracy(
    page: Page, running: Running, standing: StandIns
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
    await _open(page, f"{running.url}/models", 1280)
    table = "document.querySelector('.models')"
    assert await page.value(f"{table}.innerText.includes('mean average precision')")
    assert await page.value(f"{table}.scrollWidth <= {table}.clientWidth")
