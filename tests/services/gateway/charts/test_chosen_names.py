"""Names that others chose are drawn as they are, whatever they look like."""

import html
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.gateway.charts.colouring import MOST_COLOURS, coloured
from services.gateway.charts.drawing import Pictures
from services.gateway.charts.inline import inlined

NAMES = (
    'k aria-label="x',
    'k" id="y',
    "url(#z)",
    "a <script>alert(1)</script> & b",
    "back\\slash 'and\" quotes",
    "line\rfeed\u2028and\u2029more",
)
CONTROLS = "a\x00b\x08c\x1bd\ufffee\udc80"


@pytest.fixture
async def pictures() -> AsyncIterator[Pictures]:
    """Lend a process that draws."""
    made = Pictures()
    yield made
    await made.close()


def bars(names: tuple[str, ...]) -> dict[str, Any]:
    """Return a chart with a bar and a colour for each name."""
    rows = [{"name": name, "amount": 1 + place} for place, name in enumerate(names)]
    encoding: dict[str, Any] = {
        "x": {"field": "amount", "type": "quantitative"},
        "y": {"field": "amount", "type": "nominal"},
        "color": {"field": "name", "type": "nominal"},
    }
    plot: dict[str, Any] = {"mark": "bar", "encoding": encoding}
    return {**coloured(plot, rows, rows), "data": {"values": rows}}


def texts(svg: str) -> set[str]:
    """Return what is written in a drawing."""
    return {html.unescape(text) for text in re.findall(r">([^<>]+)<", svg)}


async def test_names_that_look_like_markup_stay_whole(pictures: Pictures) -> None:
    svg = (await pictures.draw(bars(NAMES), "svg")).decode()
    figure = inlined(svg, "Bars", "own")
    assert {re.sub(r"\s", " ", name) for name in NAMES} <= {
        re.sub(r"\s", " ", text) for text in texts(figure)
    }
    tags = "".join(re.findall(r"<[^<>]*>", figure))
    assert "aria-roledescription" not in tags
    assert tags.count("aria-label") == 1, "the figure's own"


async def test_names_are_summed_up_whatever_they_are(pictures: Pictures) -> None:
    many = tuple(f"kernel {place}" for place in range(MOST_COLOURS))
    svg = (await pictures.draw(bars((*many, *NAMES)), "svg")).decode()
    assert f"other ({len(NAMES)})" in svg


async def test_characters_that_no_drawing_may_have_are_replaced(pictures: Pictures) -> None:
    svg = (await pictures.draw(bars((CONTROLS, "plain")), "svg")).decode()
    assert "a\ufffdb\ufffdc\ufffdd\ufffde\ufffd" in texts(svg)
