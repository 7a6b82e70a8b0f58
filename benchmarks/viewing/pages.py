"""What a page shows and when: first frame, frames while someone moves, memory, live spans."""

import asyncio
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from playwright.async_api import Frame, Page

from schemas.level import Level
from schemas.status import EvaluationStatus, RunStatus
from services.gateway.pages.trace import trace_view
from services.gateway.rendering import html_of

_JOINED_MS = 1000
"""How long a viewer waits before the run begins: who joins later sees a gap, which is no loss."""
_FIRST = """() => new Promise((done) => {
  const look = () => {
    const timeline = globalThis.__timeline;
    if (timeline?.stats().frames > 0 && timeline.store.size > 0) done(performance.now());
    else requestAnimationFrame(look);
  };
  look();
})"""
_WHOLE = """() => new Promise((done) => {
  const look = () => {
    const { levels } = globalThis.__timeline;
    if (!levels.isPartial && levels.overview.size > 0) done(performance.now());
    else setTimeout(look, 20);
  };
  look();
})"""
_RECORD = """() => {
  const record = { times: [], last: 0 };
  globalThis.__record = record;
  const note = (at) => {
    if (record.last) record.times.push(at - record.last);
    record.last = at;
    record.frame = requestAnimationFrame(note);
  };
  record.frame = requestAnimationFrame(note);
}"""
_RECORDED = "() => { cancelAnimationFrame(__record.frame); return __record.times; }"
_LIVE = """(offset) => {
  const feed = globalThis.__timeline.feed, delays = globalThis.__delays = [];
  const onBatch = feed.listeners.onBatch;
  feed.listeners.onBatch = (batch) => {
    onBatch(batch);
    const published = batch.start[0] / 1e6 + offset;
    const note = () => delays.push(performance.timeOrigin + performance.now() - published);
    requestAnimationFrame(() => setTimeout(note));
  };
}"""


@dataclass(frozen=True)
class Moved:
    """Times between frames in ms while someone moved the view."""

    times: tuple[float, ...]

    def quantile(self, share: float) -> float:
        """Return a quantile of the times between frames, in ms."""
        return float(np.quantile(self.times or (float("nan"),), share))


@cache
def document(evaluation: str, run: str, *, is_live: bool) -> str:
    """Return the page of a trace as the gateway renders it."""
    status = EvaluationStatus(
        evaluation=evaluation,
        state="running" if is_live else "analyzed",
        model="bench",
        requested_ns=1,
        runs=(
            RunStatus(
                run=run,
                session="s0",
                agent="a1",
                scenario="online",
                level=Level.SYSTEM,
                batch_size=8,
                queries=1,
            ),
        ),
    )
    return html_of(trace_view(status, run), (), f"/evaluations/{evaluation}/trace")


async def serve_page(page: Page, evaluation: str, run: str, *, is_live: bool = False) -> None:
    """Let the browser have the trace's page of an evaluation that no scheduler knows."""
    body = document(evaluation, run, is_live=is_live)
    await page.route(
        f"**/evaluations/{evaluation}/trace*",
        lambda route: route.fulfill(body=body, content_type="text/html"),
    )


async def first_frame_ms(page: Page, url: str) -> float:
    """Go to a trace; return ms from the navigation to its first frame with spans."""
    await page.goto(url, wait_until="commit")
    return float(await page.evaluate(_FIRST))


async def whole_ms(page: Page) -> float:
    """Return ms from the navigation until no more spans are loaded: all, or tiles of too many."""
    return float(await page.evaluate(_WHOLE))


async def perfetto_first_frame_ms(page: Page, url: str) -> tuple[float, Frame]:
    """Go to the Perfetto UI with a trace; ms until its tracks are listed, and its frame."""
    began = time.monotonic()
    await page.goto(url, wait_until="commit")
    await page.wait_for_selector("iframe")
    frame = next(child for child in page.frames if child is not page.main_frame)
    title = frame.locator(".pf-track__title, .pf-track__title-popup, .pf-track__header").first
    await title.wait_for(timeout=120_000)
    await frame.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    return (time.monotonic() - began) * 1000, frame


async def keyed(page: Page, frame: Frame) -> Moved:
    """Zoom and pan by keys, as both programs understand them, for about four seconds."""
    await frame.evaluate(_RECORD)
    for key in "wwwwwwddddddaaaaaasssswwwwwwddddddssssss":
        await page.keyboard.down(key)
        await page.wait_for_timeout(60)
        await page.keyboard.up(key)
        await page.wait_for_timeout(30)
    return Moved(tuple(await frame.evaluate(_RECORDED)))


async def dragged(page: Page) -> Moved:
    """Zoom by wheel and drag, on our timeline."""
    box = await page.locator("[data-part=canvas]").bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    await page.evaluate(_RECORD)
    await page.mouse.move(*middle)
    await page.keyboard.down("Control")
    for step in range(40):
        await page.mouse.wheel(0, -120 if step < 25 else 120)
        await page.wait_for_timeout(16)
    await page.keyboard.up("Control")
    await page.mouse.down()
    for step in range(100):
        await page.mouse.move(middle[0] + 300 * np.sin(step / 8), middle[1])
        await page.wait_for_timeout(12)
    await page.mouse.up()
    return Moved(tuple(await page.evaluate(_RECORDED)))


async def memory_bytes(page: Page) -> int:
    """Return the memory of the page: JavaScript's heap and the buffers beside it."""
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    used: dict[str, Any] = await session.send("Runtime.getHeapUsage")
    return int(used["usedSize"] + used.get("backingStorageSize", 0))


async def watch(page: Page, url: str) -> None:
    """Open a live trace and note the delay of each batch from now on."""
    await page.goto(url)
    await page.wait_for_function("globalThis.__timeline?.feed?.source?.isOpen")
    await page.wait_for_timeout(_JOINED_MS)
    await page.evaluate(_LIVE, time.time_ns() / 1e6 - time.monotonic_ns() / 1e6)


async def frames_while(page: Page, action: Any) -> Moved:
    """Return the times between frames until `action`, an awaitable, has ended."""
    await page.evaluate(_RECORD)
    await action
    await asyncio.sleep(1.0)
    return Moved(tuple(await page.evaluate(_RECORDED)))
