"""Pictures by the process that draws: remembered, bounded, and what happens when it fails."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from services.gateway.charts import drawing
from services.gateway.charts.drawing import Pictures
from services.gateway.errors import CannotDraw

SPEC = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "data": {"values": [{"a": "x", "b": 1}]},
    "mark": "bar",
    "encoding": {"x": {"field": "b", "type": "quantitative"}, "y": {"field": "a"}},
    "config": {"axis": {"labelColor": "var(--ink)"}},
}


@pytest.fixture
async def pictures() -> AsyncIterator[Pictures]:
    made = Pictures()
    yield made
    await made.close()


async def test_a_chart_becomes_each_kind_of_picture_and_is_drawn_once(pictures: Pictures) -> None:
    svg = await pictures.draw(SPEC, "svg")
    assert b"var(--ink)" in svg
    assert await pictures.draw(SPEC, "svg") is svg
    assert (await pictures.draw(SPEC, "png")).startswith(b"\x89PNG")
    assert (await pictures.draw(SPEC, "pdf")).startswith(b"%PDF")


async def test_a_wrong_specification_is_told_and_the_next_is_drawn(pictures: Pictures) -> None:
    with pytest.raises(CannotDraw, match="was not drawn"):
        await pictures.draw({"mark": 7}, "svg")
    assert await pictures.draw(SPEC, "svg")


async def test_a_reader_who_leaves_does_not_get_the_next_ones_picture(pictures: Pictures) -> None:
    leaving = asyncio.create_task(pictures.draw(SPEC, "png"))
    await asyncio.sleep(0.05)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert (await pictures.draw(SPEC, "svg")).startswith(b"<svg")


async def test_a_process_that_died_is_replaced(pictures: Pictures) -> None:
    await pictures.draw(SPEC, "svg")
    assert pictures._process is not None
    pictures._process.kill()
    await pictures._process.wait()
    with pytest.raises(CannotDraw):
        await pictures.draw(SPEC, "png")
    assert await pictures.draw(SPEC, "png")


async def test_without_the_package_it_says_what_to_install(
    pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "can_draw", lambda: False)
    with pytest.raises(CannotDraw, match=r"mlscope\[charts\]"):
        await pictures.draw(SPEC, "svg")
