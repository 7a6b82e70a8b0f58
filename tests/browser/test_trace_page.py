"""The trace of a run on its timeline, as a person sees and moves it."""

import asyncio
from typing import Any

import polars as pl
import pytest
from playwright.async_api import Page, Route, expect

from mlscope.bus.bus import Bus
from mlscope.tracing.batches import Attempt, trace_batch
from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import Browsing, until
from tests.browser.photographs import Photographs
from tests.browser.traces import Trace, answer_over, inference, recursion, serve
from tests.services.gateway.conftest import Running
from tests.stand_ins import StandIns
from tests.stories import E, a_run, beginning, ending, whole_story


class ManyLayers(Trace):
    """A query of layers in a row, from their columns `start` and `name`."""

    def __init__(self, layers: pl.DataFrame) -> None:
        super().__init__(rows=[()] * layers.height)
        self._layers = layers

    @property
    def frame(self) -> pl.DataFrame:
        """The columns of the layers."""
        one = Trace().frame
        rest = {name: pl.lit(-1) for name in ("parent", "query", "correlation")}
        zeros = {name: pl.lit(0) for name in ("depth", "kind", "value")}
        ones = {name: pl.lit(1) for name in ("count", "busy")}
        columns = {"lane": pl.lit(2), "duration": pl.lit(9e3), **rest, **zeros, **ones}
        ids = pl.int_range(1, self._layers.height + 1, dtype=pl.Int64).alias("id")
        frame = self._layers.with_columns(ids, **columns).select(one.columns)
        return frame.select(pl.col(name).cast(kind) for name, kind in one.schema.items())


DETAILS = {
    "layer": 12,
    "attributes": {"type": "Conv", "shape": [1, 64, 56, 56], "flops": 231211008},
}
TIMELINE = "globalThis.__timeline"
SELECTED = f"((t) => t.selected && t.store.names[t.selected.row.name[t.selected.span]])({TIMELINE})"


async def open_trace(
    page: Page, running: Running, standing: StandIns, trace: Trace, query: str = ""
) -> None:
    """Open a `page` with a `trace` of run r0; `query` says the view."""
    await standing.tell(*whole_story())
    await serve(page, trace, DETAILS)
    await page.goto(f"{running.url}/evaluations/{E}/trace?run=r0{query}")
    await page.wait_for_selector("#timeline:not([data-state=loading])", state="attached")


async def drag(page: Page, x: float, y: float, *, by: float) -> None:
    """Drag the mouse from (`x`, `y`) to the right, `by` so many pixels."""
    await page.mouse.move(x, y)
    await page.mouse.down()
    await page.mouse.move(x + by, y, steps=4)
    await page.mouse.up()


async def window_of(page: Page) -> tuple[float, float]:
    """Return the window that the timeline of a `page` goes to, in ns."""
    goal: dict[str, Any] = await page.evaluate(f"{TIMELINE}.view.goal")
    return goal["from"], goal["to"]


async def point_of(page: Page, name: str) -> tuple[float, float]:
    """Return where on the screen the longest span called `name` in the window of a `page` is."""
    found: tuple[float, float] = await page.evaluate(
        """(name) => {
          const t = globalThis.__timeline, canvas = t.parts.canvas.getBoundingClientRect();
          for (const block of t.layout.blocks) for (const line of block.lines) {
            const row = t.store.row(block.lane.lane, line.depth);
            for (let at = 0; at < (row?.size ?? 0); at += 1) {
              if (t.store.names[row.name[at]] !== name) continue;
              if (row.end(at) < t.view.window.from) continue;
              const middle = Math.max(row.start[at], t.view.window.from) + row.duration[at] / 2;
              const share = (middle - t.view.window.from) / (t.view.window.to - t.view.window.from);
              return [canvas.x + share * canvas.width, canvas.y + 22 + line.y + line.height / 2];
            }
          }
        }""",
        name,
    )
    return found


async def test_a_stored_run_is_shown_whole(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    trace = inference()
    await open_trace(page, running, standing, trace)
    await expect(page.locator("[data-part=count]")).to_contain_text(
        "4,022 of 4,022 spans: 3,982 captured, 40 of the load"
    )
    assert await page.evaluate(f"{TIMELINE}.stats().spans") == len(trace.rows)
    assert await page.locator(".gutter .lane").count() == 6
    await expect(page.locator(".window tbody tr")).to_have_count(50)
    await assert_accessible(page)
    await photographs.take(page, "trace-whole")


async def test_a_trace_that_did_not_load_is_loaded_again(
    browser: Browsing, page: Page, running: Running, standing: StandIns
) -> None:
    browser.tolerate("503")
    await standing.tell(*whole_story())
    await page.goto(f"{running.url}/evaluations/{E}/trace?run=r0")
    await expect(page.locator("[data-part=state]")).to_contain_text("could not be loaded")
    await assert_accessible(page)
    await serve(page, inference())
    await page.get_by_role("button", name="Try again").press("Enter")
    await expect(page.locator("[data-part=count]")).to_contain_text(
        "4,022 of 4,022 spans: 3,982 captured, 40 of the load"
    )


async def test_a_long_run_is_prepared_then_tiles_then_spans(
    page: Page, running: Running, standing: StandIns
) -> None:
    trace = inference()
    asked: list[str] = []

    async def answer(route: Route) -> None:
        asked.append(route.request.url)
        overview = {**trace.overview(), "spans": 250_000}
        if len(asked) == 1:
            overview = {"spans": 250_000, "lanes": [], "prepared_share": 0.4}
        if "min_ns" in asked[-1]:
            await tiles_shown.wait()
        if "/spans?" in asked[-1]:
            await route.fulfill(body=trace.arrow())
        else:
            await route.fulfill(json=overview)

    await standing.tell(*whole_story())
    tiles_shown = asyncio.Event()
    await page.route("**/api/evaluations/*/runs/**", answer)
    await page.goto(f"{running.url}/evaluations/{E}/trace?run=r0&sel=3")
    await expect(page.locator("[data-part=state]")).to_contain_text("40.0%")
    tiles_shown.set()
    await until(page, f"{TIMELINE}.levels.isPartial === false && {TIMELINE}.store.size > 0")
    assert await page.evaluate(SELECTED) == "predict"
    windows = [url for url in asked if "/spans?" in url]
    assert ["min_ns" in url for url in windows] == [True, False]


async def test_a_click_selects_a_span_and_shows_what_is_known_of_it(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    await open_trace(page, running, standing, inference(), "&t=2ms,5ms")
    await page.mouse.click(*await point_of(page, "conv_3"))
    details = page.locator("[data-part=details]")
    await expect(details.locator("h3")).to_have_text("conv_3")
    await expect(details).to_contain_text("predict")
    await expect(details).to_contain_text("Same name: 40")
    await expect(details).to_contain_text("231211008")
    layers = details.get_by_text("this layer in A2")
    await expect(layers).to_have_attribute("href", f"/evaluations/{E}/analyses/A2?layer=12")
    links = details.locator(".links a")
    await expect(links).to_have_count(6)
    assert [str(await link.get_attribute("href"))[-12:] for link in await links.all()] == [
        f"{number:>3}?layer=12".replace(" ", "/")
        for number in ("A2", "A3", "A4", "A11", "A13", "A14")
    ]
    await expect(page.locator("[data-part=spoken]")).to_contain_text("conv_3, layer,")
    await until(page, "location.search.includes('sel=')")
    await assert_accessible(page)
    await photographs.take(page, "trace-selected")


async def test_a_layer_without_a_number_is_found_by_its_name(
    page: Page, running: Running, standing: StandIns
) -> None:
    await standing.tell(*whole_story())
    await serve(page, inference(), {"layer": -1, "attributes": {"type": "Conv"}})
    await page.goto(f"{running.url}/evaluations/{E}/trace?run=r0&sel=4")
    details = page.locator("[data-part=details]")
    await expect(details).to_contain_text("Conv")
    address = f"/evaluations/{E}/analyses/A2?run=r0#:~:text="
    href = await details.get_by_text("this layer in A2").get_attribute("href")
    assert str(href).startswith(address)


async def test_keys_walk_to_children_parents_and_namesakes(
    page: Page, running: Running, standing: StandIns
) -> None:
    await open_trace(page, running, standing, inference())
    await page.locator("[data-part=lanes]").focus()
    await page.keyboard.press("Enter")
    await until(page, f"({SELECTED}).startsWith('query')")
    await page.evaluate(f"{TIMELINE}.selectId(3)")
    await page.keyboard.press("Enter")
    await until(page, f"({SELECTED}).startsWith('batchnorm')")
    before = await page.evaluate(f"{TIMELINE}.selectedId")
    await page.keyboard.press("]")
    assert await page.evaluate(f"{TIMELINE}.selectedId") > before
    await page.keyboard.press("[")
    assert await page.evaluate(f"{TIMELINE}.selectedId") == before
    await page.keyboard.press("Backspace")
    await until(page, f"({SELECTED}) === 'predict'")
    await page.keyboard.press("f")
    start, end = await window_of(page)
    assert end - start < 2_000_000
    await page.keyboard.press("0")
    assert await window_of(page) == tuple(
        await page.evaluate(f"Object.values({TIMELINE}.view.limits)")
    )
    await page.keyboard.press("Escape")
    assert await page.evaluate(f"{TIMELINE}.selected") is None


async def test_keys_and_wheel_zoom_and_a_drag_pans(
    page: Page, running: Running, standing: StandIns
) -> None:
    await open_trace(page, running, standing, inference(), "&t=20ms,30ms")
    await page.keyboard.press("w")
    start, end = await window_of(page)
    assert end - start == pytest.approx(6e6)
    await page.keyboard.press("d")
    assert (await window_of(page))[0] == pytest.approx(start + 1.5e6)
    await page.wait_for_timeout(400)
    box = await page.locator("[data-part=canvas]").bounding_box()
    assert box is not None
    await drag(page, box["x"] + box["width"] / 2, box["y"] + 60, by=100)
    moved = (await window_of(page))[0] - start
    assert moved == pytest.approx(1.5e6 - 100 / box["width"] * 6e6, rel=0.01)
    await page.keyboard.down("Control")
    await page.mouse.wheel(0, -300)
    await page.keyboard.up("Control")
    await until(page, f"{TIMELINE}.view.goal.to - {TIMELINE}.view.goal.from < 5e6")


async def test_a_press_in_the_strip_moves_the_window_there(
    page: Page, running: Running, standing: StandIns
) -> None:
    await open_trace(page, running, standing, inference(), "&t=20ms,22ms")
    box = await page.locator("[data-part=minimap]").bounding_box()
    assert box is not None
    await page.mouse.click(box["x"] + box["width"] * 0.75, box["y"] + box["height"] / 2)
    whole = await page.evaluate(f"{TIMELINE}.view.limits")
    middle = whole["from"] + 0.75 * (whole["to"] - whole["from"])
    await until(page, f"Math.abs({TIMELINE}.view.goal.from - {middle - 1e6}) < 5e5")


async def test_a_marked_range_says_what_it_is_made_of(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    await open_trace(page, running, standing, inference(), "&t=0ms,10ms")
    box = await page.locator("[data-part=canvas]").bounding_box()
    assert box is not None
    await page.keyboard.press("m")
    await drag(page, box["x"] + 100, box["y"] + 100, by=400)
    details = page.locator("[data-part=details]")
    await expect(details).to_contain_text("Range of")
    await expect(details.locator("tbody tr").first).to_contain_text("predict")
    await assert_accessible(page)
    await photographs.take(page, "trace-range")


async def test_a_search_counts_its_hits_and_goes_from_one_to_the_next(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    await open_trace(page, running, standing, inference())
    await page.keyboard.press("/")
    await page.keyboard.type("SoftMax_")
    await expect(page.locator("[data-part=hits]")).to_have_text("360 hits")
    await page.keyboard.press("Enter")
    await until(page, f"({SELECTED}).startsWith('softmax')")
    await until(page, "location.search.includes('q=SoftMax_')")
    await photographs.take(page, "trace-search")


async def test_an_address_brings_the_view_back(
    page: Page, running: Running, standing: StandIns
) -> None:
    query = "&t=2ms,5ms&sel=3&q=gemm&lanes=device/0/7&fold=counter"
    await open_trace(page, running, standing, inference(), query)
    assert await window_of(page) == (2e6, 5e6)
    assert await page.evaluate(SELECTED) == "predict"
    await expect(page.locator("[data-part=hits]")).to_contain_text("hits")
    await expect(page.locator(".gutter .pinned .name")).to_have_text("device 0 · stream 7")
    await expect(page.locator(".gutter .group .fold").last).to_have_attribute(
        "aria-expanded", "false"
    )
    await page.wait_for_timeout(300)
    assert query.removeprefix("&") in await page.evaluate("location.search")


async def test_an_address_opens_at_a_query(
    page: Page, running: Running, standing: StandIns
) -> None:
    await open_trace(page, running, standing, inference(), "&query=17")
    assert await page.evaluate(SELECTED) == "query 17"
    start, end = await window_of(page)
    assert end - start < 4e6
    await until(page, "location.search.includes('sel=') && !location.search.includes('query=')")
    await page.goto(f"{running.url}/evaluations/{E}/trace?run=r0&query=170")
    await expect(page.locator("[data-part=note]")).to_have_text("Query 170 is not in this trace.")


async def test_lanes_fold_and_groups_fold(page: Page, running: Running, standing: StandIns) -> None:
    await open_trace(page, running, standing, inference())
    height = await page.evaluate(f"{TIMELINE}.layout.height")
    await page.get_by_role("button", name="layer", exact=True).click()
    assert await page.evaluate(f"{TIMELINE}.layout.height") < height
    await page.get_by_role("button", name="Host", exact=True).click()
    assert await page.locator(".gutter .lane").count() == 3


async def test_the_slowest_query_is_a_key_away(
    page: Page, running: Running, standing: StandIns
) -> None:
    await open_trace(page, running, standing, inference())
    await page.click("text=Slowest query")
    await until(page, f"({SELECTED}) === 'query 39'")
    start, end = await window_of(page)
    assert end - start < 4e6
    predict = page.locator("[data-part=details] tr", has_text="predict")
    await expect(predict.locator("td").last).to_have_text("+392 µs")
    await page.keyboard.press("t")
    await until(page, f"({SELECTED}) !== 'query 39'")
    await page.evaluate("document.activeElement.blur()")
    for key, name in (
        ("x", "query 39"),
        ("Enter", "predict"),
        ("Enter", "batchnorm_1"),
        ("Enter", "void cudnn::batchnorm_implicit_gemm_128x64<float>"),
        ("Backspace", "batchnorm_1"),
        ("Backspace", "predict"),
        ("Backspace", "query 39"),
    ):
        await page.keyboard.press(key)
        await until(page, f"({SELECTED}) === '{name}'")


async def test_a_layer_shows_the_kernels_that_it_started(
    page: Page, running: Running, standing: StandIns
) -> None:
    await open_trace(page, running, standing, inference(), "&sel=4")
    await expect(page.locator("[data-part=details]")).to_contain_text("Started on the device")


async def test_the_keys_are_listed(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    await open_trace(page, running, standing, inference(queries=2))
    await page.keyboard.press("?")
    dialog = page.locator("dialog[data-part=help]")
    await expect(dialog).to_be_visible()
    await expect(dialog).to_contain_text("previous span of the same name")
    await assert_accessible(page)
    await photographs.take(page, "trace-keys", is_whole=False)


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.long), 390])
async def test_the_trace_is_accessible_and_as_wide_as_its_window(
    browser: Browsing, running: Running, standing: StandIns, width: int
) -> None:
    page = await browser.page(width=width)
    await open_trace(page, running, standing, inference(queries=4), "&sel=3")
    await expect(page.locator("[data-part=details] h3")).to_have_text("predict")
    await assert_accessible(page)
    assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_a_run_without_spans_says_what_to_do(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    await open_trace(page, running, standing, Trace())
    await expect(page.locator("[data-part=state]")).to_contain_text("--trace-level")
    await assert_accessible(page)
    await photographs.take(page, "trace-empty")


async def test_one_span_fills_the_window(page: Page, running: Running, standing: StandIns) -> None:
    trace = Trace()
    trace.add(1, "predict", 0, 1_000_000)
    await open_trace(page, running, standing, trace)
    await expect(page.locator("[data-part=count]")).to_contain_text("1 of 1 spans")
    await page.mouse.click(*await point_of(page, "predict"))
    await expect(page.locator("[data-part=details]")).to_contain_text("the only one")


async def test_recursion_and_names_of_any_length_and_script_are_shown(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    await open_trace(page, running, standing, recursion())
    assert await page.evaluate(f"{TIMELINE}.layout.blocks.at(-1).lines.length") == 10
    await page.mouse.click(*await point_of(page, "畳み込み層 · свёртка · التفاف"))
    await expect(page.locator("[data-part=details] h3")).to_have_text(
        "畳み込み層 · свёртка · التفاف"
    )
    await page.evaluate(f"{TIMELINE}.selectId(1)")
    assert await page.evaluate("document.documentElement.scrollWidth") <= 1280
    await assert_accessible(page)
    await photographs.take(page, "trace-recursion")


@pytest.mark.long
async def test_a_hundred_thousand_layers_are_shown(
    page: Page, running: Running, standing: StandIns
) -> None:
    count = 100_000
    numbers = pl.int_range(count, eager=True)
    layers = pl.DataFrame({"start": numbers * 1e4, "name": "layer_" + numbers.cast(pl.String)})
    await open_trace(page, running, standing, ManyLayers(layers))
    await expect(page.locator("[data-part=count]")).to_contain_text("100,000 of 100,000 spans")
    await page.fill("[data-part=search]", "layer_99998")
    await expect(page.locator("[data-part=hits]")).to_have_text("1 hit")
    await page.press("[data-part=search]", "Enter")
    await until(page, f"({SELECTED}) === 'layer_99998'")
    assert await page.evaluate(f"{TIMELINE}.screen.steps") < 20_000


async def test_two_fingers_zoom_and_one_pans(
    browser: Browsing, running: Running, standing: StandIns
) -> None:
    page = await browser.page(width=390)
    await open_trace(page, running, standing, inference(), "&t=20ms,30ms")
    box = await page.locator("[data-part=canvas]").bounding_box()
    assert box is not None
    session = await page.context.new_cdp_session(page)
    middle, y = box["x"] + box["width"] / 2, box["y"] + 60

    async def touch(kind: str, *places: float) -> None:
        points = [{"x": x, "y": y, "id": number} for number, x in enumerate(places)]
        await session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    await touch("touchStart", middle - 20, middle + 20)
    for step in (30, 40, 60, 80):
        await touch("touchMove", middle - step, middle + step)
    await touch("touchEnd")
    start, end = await window_of(page)
    assert end - start == pytest.approx(2.5e6, rel=0.1)
    assert 20e6 < start < end < 30e6
    await touch("touchStart", middle)
    for step in (20, 40, 60):
        await touch("touchMove", middle - step)
    await touch("touchEnd")
    moved = (await window_of(page))[0] - start
    assert moved == pytest.approx(60 / box["width"] * (end - start), rel=0.05)


async def test_at_200_per_cent_all_is_reachable(
    browser: Browsing, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    page = await browser.page(width=640, device_scale_factor=2)
    await open_trace(page, running, standing, inference(), "&t=2ms,5ms")
    assert await page.evaluate("document.documentElement.scrollWidth") <= 640
    canvas = await page.evaluate(f"[{TIMELINE}.screen.canvas.width, {TIMELINE}.screen.width]")
    assert canvas[0] == 2 * canvas[1]
    await page.mouse.click(*await point_of(page, "conv_3"))
    await expect(page.locator("[data-part=details] h3")).to_have_text("conv_3")
    await photographs.take(page, "trace-200-per-cent")


async def test_a_narrow_screen_has_one_row_and_a_menu(
    browser: Browsing, running: Running, standing: StandIns
) -> None:
    page = await browser.page(width=390)
    await open_trace(page, running, standing, inference())
    bar = await page.locator(".timeline .bar").bounding_box()
    assert bar is not None
    assert bar["height"] < 50
    await page.click(".timeline .more")
    await page.click("text=Slowest query")
    await until(page, f"({SELECTED}) === 'query 39'")
    await expect(page.get_by_text("Slowest query", exact=True)).to_be_hidden()


async def test_gaps_and_dropped_spans_are_said(
    page: Page, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    trace = inference(queries=10)
    trace.gaps = [{"lane": None, "from_ns": 4e6, "to_ns": 9e6, "count": 1234}]
    trace.dropped = 1234
    await open_trace(page, running, standing, trace)
    text = page.locator("[data-part=count]")
    await expect(text).to_contain_text("1,234 dropped while measuring")
    await expect(text).to_contain_text("1 gap (hatched)")
    await photographs.take(page, "trace-gaps")


async def test_without_a_script_the_longest_spans_are_tables(
    browser: Browsing, running: Running, standing: StandIns, bus: Bus, photographs: Photographs
) -> None:
    await standing.tell(*whole_story())
    trace = inference(queries=3)
    await answer_over(bus, trace)
    page = await browser.page(java_script_enabled=False)
    await page.goto(f"{running.url}/evaluations/{E}/trace?run=r0")
    await page.click("text=the longest spans of each level")
    await page.wait_for_url("**form=table")
    headings = await page.locator("h2").all_inner_texts()
    assert headings[:2] == ["Longest at level query", "Longest at level model"]
    row = page.locator("table").nth(1).locator("tbody tr").first
    assert (await row.inner_text()).startswith("predict\tmodel")
    await photographs.take(page, "trace-tables")


async def test_an_answer_that_is_refused_is_said(
    browser: Browsing, page: Page, running: Running, standing: StandIns
) -> None:
    browser.tolerate("Failed to load resource")
    await standing.tell(*whole_story())
    refused = {"error": "unavailable", "message": "no analyzer answers"}
    await page.route("**/api/**/runs/**", lambda route: route.fulfill(status=503, json=refused))
    await page.goto(f"{running.url}/evaluations/{E}/trace?run=r0")
    await expect(page.locator("[data-part=state]")).to_contain_text("no analyzer answers")


async def test_a_live_run_grows_counts_its_gaps_and_ends_as_the_record(
    browser: Browsing, running: Running, standing: StandIns, photographs: Photographs
) -> None:
    browser.tolerate("Failed to load resource")  # no analyzer answers once the run has ended
    page = await browser.page()
    await standing.tell(*beginning(), a_run("r0")[0])
    await page.goto(f"{running.url}/evaluations/{E}/trace?run=r0&query=3")
    await expect(page.locator("[data-part=state]")).to_contain_text("Waiting for the first spans")
    await until(page, f"{TIMELINE}.feed.source.isOpen")
    names = {"conv": 0, "predict": 1}
    for sequence in (0, 1, 4):
        start = sequence * 10**9
        rows = [
            (sequence * 100 + n, -1, 3, 0, start + n * 10**6, 900_000, 7, n, 0, b"")
            for n in range(1, 51)
        ]
        await standing.tell(trace_batch(Attempt(E, "r0", 1, "a1"), sequence, rows, names))
    count = page.locator("[data-part=count]")
    await expect(count).to_contain_text("150 of 150 spans")
    await expect(count).to_contain_text("1 gap (hatched)")
    await expect(page.locator("[data-do=follow]")).to_have_attribute("aria-pressed", "true")
    assert (await window_of(page))[1] > 4e9
    note = page.locator("[data-part=note]")
    await expect(note).to_contain_text("Query 3 was answered before this page looked")
    await until(page, "location.search.includes('query=3')")
    await page.keyboard.press("a")
    await expect(page.locator("[data-do=follow]")).to_have_attribute("aria-pressed", "false")
    await assert_accessible(page)
    await photographs.take(page, "trace-live")
    await standing.tell(*a_run("r0")[1:], *a_run("r1"), *ending())
    await expect(page.locator("#timeline")).to_have_attribute("data-live", "no", timeout=15_000)
