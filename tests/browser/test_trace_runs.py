"""Which run the page of a trace shows: the chosen one, and the next while an evaluation goes on."""

import asyncio
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, Request, Route, expect

from mlscope.tracing.batches import Attempt, trace_batch
from schemas.batch import TraceCaptured
from schemas.evaluation import EvaluationCancelled
from schemas.message import Fact
from tests.browser.chromium import Browsing, until
from tests.browser.traces import inference, serve
from tests.services.gateway.conftest import Running
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, ending, whole_story

TIMELINE = "globalThis.__timeline"
SOON_MS = 60_000
PAGE = f"/evaluations/{E}/trace"


def layers_of(run: str) -> TraceCaptured:
    """Return a `run`'s first batch: 50 layers."""
    rows = [(n, -1, 3, 0, n * 10**6, 900_000, 7, n, 0, b"") for n in range(1, 51)]
    return trace_batch(Attempt(E, run, 1, "a1"), 0, rows, {"conv": 0})


def count_loads(page: Page) -> list[str]:
    """Return a list that grows with what `page` loads of the trace's page: kinds of requests."""
    kinds: list[str] = []

    def note(request: Request) -> None:
        if urlsplit(request.url).path == PAGE:
            kinds.append(request.resource_type)

    page.on("request", note)
    return kinds


async def test_another_run_is_chosen_and_an_unknown_one_is_said(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    await serve(page, inference(queries=1), {})
    await page.goto(f"{running.url}{PAGE}?run=r0")
    await page.select_option("#run", "r1")
    await expect(page.locator("#timeline")).to_have_attribute("data-run", "r1")
    await expect(page.locator("#run")).to_have_value("r1")
    await page.goto(f"{running.url}{PAGE}?run=gone")
    await expect(page.locator(".note")).to_contain_text("no run gone")


async def test_a_run_that_is_chosen_before_the_script_runs_is_shown(
    page: Page, running: Running, standing: StandIns
) -> None:
    held: asyncio.Queue[Route] = asyncio.Queue()
    await page.route("**/js/timeline/page.js", held.put)
    await standing.tell(*whole_story())
    await serve(page, inference(queries=1), {})
    await page.goto(f"{running.url}{PAGE}?run=r0", wait_until="commit")
    await page.select_option("#run", "r1")
    await page.unroute("**/js/timeline/page.js")
    await (await held.get()).continue_()
    await expect(page.locator("#timeline")).to_have_attribute("data-run", "r1")


async def test_without_a_script_a_run_is_chosen_by_its_button(
    browser: Browsing, running: Running, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    page = await browser.page(java_script_enabled=False)
    await page.goto(f"{running.url}{PAGE}?run=r0")
    await page.select_option("#run", "r1")
    await page.click(".run-picker button")
    await expect(page.locator("#timeline")).to_have_attribute("data-run", "r1")


@pytest.mark.parametrize("query", ["", "?run=r0"])
async def test_the_record_of_a_run_leads_to_the_run_that_is_measured_next(
    page: Page, running: Running, standing: StandIns, query: str
) -> None:
    await standing.tell(*beginning(), *a_run("r0"))
    await serve(page, inference(queries=1), {})
    await page.goto(f"{running.url}{PAGE}{query}")
    timeline = page.locator("#timeline")
    await expect(timeline).to_have_attribute("data-state", "shown")
    await expect(timeline).to_have_attribute("data-live", "no")
    await standing.tell(a_run("r1")[0])
    if not query:
        await expect(timeline).to_have_attribute("data-run", "r1", timeout=SOON_MS)
        await expect(timeline).to_have_attribute("data-live", "yes")
    else:
        other = page.locator("[data-part=other] a")
        await expect(other).to_have_text("r1 is measured now", timeout=SOON_MS)
        await other.click()
        await expect(timeline).to_have_attribute("data-run", "r1")


async def test_a_live_page_without_spans_follows_to_the_run_that_starts_next(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*beginning(), a_run("r0")[0])
    await page.goto(f"{running.url}{PAGE}")
    await until(page, f"{TIMELINE}.feed.source.isOpen")
    await standing.tell(*a_run("r0")[1:], a_run("r1")[0])
    await expect(page.locator("#timeline")).to_have_attribute("data-run", "r1", timeout=SOON_MS)


async def test_a_live_page_keeps_its_run_while_others_send_spans(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*beginning(), a_run("r0")[0], a_run("r1")[0])
    await page.clock.install()
    loads = count_loads(page)
    await page.goto(f"{running.url}{PAGE}")
    await until(page, f"{TIMELINE}.feed.source.isOpen")
    await page.clock.fast_forward(4000)
    await standing.tell(layers_of("r1"))
    await until(page, f"{TIMELINE}.feed.lanes.size === 1")
    await standing.tell(layers_of("r0"))
    await expect(page.locator("[data-part=count]")).to_contain_text("50 of 50 spans")
    assert loads == ["document"]


async def test_a_page_loads_itself_once_however_many_runs_start_meanwhile(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*beginning(runs=3), a_run("r0")[0])
    await page.clock.install()
    await page.goto(f"{running.url}{PAGE}")
    await until(page, f"{TIMELINE}.feed.source.isOpen")
    held: asyncio.Queue[Route] = asyncio.Queue()
    await page.route(f"{running.url}{PAGE}", held.put)
    loads = count_loads(page)
    await standing.tell(*a_run("r0")[1:], a_run("r1")[0])
    first = await held.get()
    last = await page.evaluate(f"{TIMELINE}.feed.lastEvent")
    await standing.tell(a_run("r2")[0])
    await until(page, f"{TIMELINE}.feed.lastEvent !== {last!r}")
    await page.clock.fast_forward(2000)
    await first.continue_()
    await (await held.get()).continue_()
    await expect(page.locator("#timeline")).to_have_attribute("data-run", "r1", timeout=SOON_MS)
    assert loads == ["fetch", "document"]


async def test_a_page_with_a_fragment_shows_the_record_when_all_has_ended(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*beginning(), a_run("r0")[0])
    await page.goto(f"{running.url}{PAGE}?run=r0#main")
    await until(page, f"{TIMELINE}.feed.source.isOpen")
    await serve(page, inference(queries=1), {})
    await standing.tell(*a_run("r0")[1:], *a_run("r1"), *ending())
    await expect(page.locator("#timeline")).to_have_attribute("data-live", "no", timeout=SOON_MS)


@pytest.mark.parametrize(
    "how",
    [
        "it ends",
        pytest.param("all is cancelled", marks=pytest.mark.long),
        pytest.param("the shown one starts", marks=pytest.mark.long),
    ],
)
async def test_a_run_is_said_to_be_measured_only_while_it_is(
    page: Page, running: Running, standing: StandIns, how: str
) -> None:
    shown, measured = ("r1", "r0") if how == "the shown one starts" else ("r0", "r1")
    before = [] if shown == "r1" else a_run("r0")
    await standing.tell(*beginning(), *before)
    await serve(page, inference(queries=1), {})
    await page.goto(f"{running.url}{PAGE}?run={shown}")
    await standing.tell(a_run(measured)[0])
    other = page.locator("[data-part=other]")
    await expect(other).to_have_text(f"{measured} is measured now", timeout=SOON_MS)
    after: dict[str, list[Fact]] = {
        "it ends": a_run("r1")[1:],
        "all is cancelled": [EvaluationCancelled(evaluation=E)],
        "the shown one starts": a_run("r1")[:1],
    }
    await standing.tell(*after[how])
    await expect(other).to_be_empty(timeout=SOON_MS)
