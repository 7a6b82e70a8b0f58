"""The live strips of a run on a GPU, drawn from what its worker and an H200 used in a recording."""

import asyncio
import json
from pathlib import Path
from typing import Any

from playwright.async_api import Page, expect

from mlscope.quantities import shown
from mlscope.testing.memory_bus import MemoryServer, connect
from schemas.encoding.codec import encode_body
from schemas.live.resources import ResourcesUsed
from schemas.subjects import resources_subject
from tests.browser.chromium import until
from tests.browser.photographs import Photographs
from tests.services.gateway.conftest import Running
from tests.stand_ins import StandIns
from tests.stories import AGENT, E, a_run, beginning, queries

RECORDED = Path(__file__).parent.parent / "gpu/recorded/resources_resnet50.jsonl"
STRIPS = ("cpu", "gpu", "power")
NAMES = ("cpu_cores", "gpu_share", "power_w")
ANSWERED = "document.querySelector('[data-run=r0] [data-field=answered]')?.textContent"
COLOURED = """(name) => {
  const canvas = document.querySelector(`#strip-${name} canvas`);
  if (!canvas) return 0;
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let coloured = 0;
  for (let at = 0; at < data.length; at += 4) {
    const [red, green, blue, alpha] = data.slice(at, at + 4);
    coloured += alpha > 0 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60;
  }
  return coloured;
}"""
"""How many pixels of a strip have a colour: those of its line, as axes and grid are grey."""


def readings() -> list[dict[str, Any]]:
    """Return every fourth reading of the recording, from idle to full load."""
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    assert max(line["gpu_share"] for line in lines) > 0.5
    return lines[::4][:8]


def figures_stand(reading: dict[str, Any]) -> str:
    """Return a script: whether the figures above the strips are those of a `reading`."""
    columns = (("cpu_cores", "cores"), ("gpu_share", "share"), ("power_w", "W"))
    texts = [shown(reading[name], unit) for name, unit in columns]
    return " && ".join(
        f"document.querySelector('[data-figure={name}]').textContent === '{text}'"
        for name, text in zip(STRIPS, texts, strict=True)
    )


async def test_strips_draw_what_a_worker_and_its_gpu_use(
    page: Page,
    running: Running,
    standing: StandIns,
    server: MemoryServer,
    photographs: Photographs,
) -> None:
    await standing.tell(*beginning(), a_run("r0")[0])
    await page.goto(f"{running.url}/evaluations/{E}")
    await until(page, "document.querySelector('#strip-gpu').hidden")
    async with connect(server, "agent") as agent:
        for number, reading in enumerate(readings()):
            await answer_one(page, standing, number)
            # Said once, and after the queries: nothing else makes the page look again.
            used = {name: reading[name] for name in NAMES}
            message = ResourcesUsed(evaluation=E, run="r0", attempt=1, agent=AGENT, **used)
            await agent.publish_live(resources_subject(message), encode_body(message))
            await until(page, figures_stand(reading))
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        for name in STRIPS:
            assert not await page.evaluate(f"document.querySelector('#strip-{name}').hidden")
            assert await page.evaluate(COLOURED, name) > 50, f"{name}, {scheme}"
    await photographs.take(page, "evaluation-live-gpu")
    await page.locator("#strip-power .u-over").hover(position={"x": 1, "y": 30})
    first = readings()[0]
    await expect(page.locator("[data-figure=power]")).to_have_text(
        f"at 1 s: {shown(first['power_w'], 'W')}"
    )
    await expect(page.locator("[data-figure=cpu]")).to_contain_text("at 1 s: ")
    await page.mouse.move(0, 0)
    await until(page, figures_stand(readings()[-1]))


async def answer_one(page: Page, standing: StandIns, number: int) -> None:
    """Answer query `number` of r0, each a second after the one before, and see it on a `page`.

    What is told before the page listens is lost, so it is told until the page shows it.
    """
    ended_ns = [(number + 1) * 1_000_000_000]
    async with asyncio.timeout(20):
        while await page.evaluate(ANSWERED) != str(number + 1):
            await standing.tell(queries(ended_ns, sequence=number))
            await asyncio.sleep(0.1)
