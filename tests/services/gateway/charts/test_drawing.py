"""Pictures by the process that draws: remembered, bounded, and what happens when it fails."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

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
    [pen] = pictures._pens
    assert pen.process is not None
    pen.process.kill()
    await pen.process.wait()
    with pytest.raises(CannotDraw):
        await pictures.draw(SPEC, "png")
    assert await pictures.draw(SPEC, "png")


async def test_without_the_package_it_says_what_to_install(
    pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "can_draw", lambda: False)
    with pytest.raises(CannotDraw, match=r"mlscope\[charts\]"):
        await pictures.draw(SPEC, "svg")


async def test_one_person_leaves_room_for_the_charts_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drawing, "_MOST_WAITING", 4)
    pictures = Pictures()
    draw = pictures.draw
    of_vera = [draw({**SPEC, "title": str(n)}, "svg", "vera") for n in range(4)]
    waiting = [asyncio.ensure_future(one) for one in (*of_vera, draw(SPEC, "svg", "olga"))]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    refused = [isinstance(outcome, CannotDraw) for outcome in outcomes]
    await pictures.close()
    assert refused == [False, False, True, True, False]


def stored(folder: Path) -> list[bytes]:
    """Return the pictures in a folder."""
    return [path.read_bytes() for path in folder.iterdir()]


async def test_what_is_stored_is_not_drawn_again(tmp_path: Path) -> None:
    first, second = Pictures(tmp_path), Pictures(tmp_path)
    svg = await first.draw(SPEC, "svg")
    await first.close()
    assert await second.draw(SPEC, "svg") == svg
    assert second._pens[0].process is None, "no process was needed"
    assert stored(tmp_path) == [svg]


async def test_the_oldest_stored_pictures_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "_MOST_STORED_BYTES", 1)
    pictures = Pictures(tmp_path)
    assert await pictures.draw(SPEC, "svg")
    await pictures.close()
    assert stored(tmp_path) == []


async def test_several_pens_draw_at_a_time() -> None:
    pictures = Pictures(pens=2)
    both = await asyncio.gather(pictures.draw(SPEC, "svg"), pictures.draw(SPEC, "png"))
    assert both[0].startswith(b"<svg")
    assert both[1].startswith(b"\x89PNG")
    assert all(pen.process for pen in pictures._pens)
    await pictures.close()
