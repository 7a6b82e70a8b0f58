"""The gateway's JavaScript modules, each file of tests in a page of its own."""

import math
from itertools import product

import pytest
from playwright.async_api import Page

from mlscope.quantities import shown
from tests.browser.modules import failures_of, files_of_tests

#: Units of every rule; those without one stand for themselves.
UNITS = ("ns", "s", "By", "FLOP", "B/s", "share", "USD", "USD/h", "1/s", "1", "FLOP/By", "Cel", "W")
SHOWN = """async ([values, units]) => {
  const { quantity } = await import("/static/js/quantities.js");
  return values.flatMap((value) => units.map((unit) => quantity(value, unit)));
}"""


@pytest.mark.parametrize("file", files_of_tests())
async def test_a_module_does_what_it_says(page: Page, modules_url: str, file: str) -> None:
    failures = await failures_of(page, modules_url, file)
    assert not failures, "\n".join(failures)


def _values() -> list[float]:
    """Return values of many sizes, among them halves of the last digit and their neighbours."""
    halves = [place / 32 for place in (*range(65), 283, 325, 3196, 4004, 31968, 32016, 320016)]
    decimals = [
        digits * 10.0**power for digits in (1.005, 1.145, 9.995, 9.996) for power in range(-9, 16)
    ]
    values = [size for half in (*halves, *decimals) for size in (half, math.nextafter(half, 0))]
    return [sign * value for value in values for sign in (1, -1)]


async def test_pages_and_tables_show_every_quantity_alike(page: Page, modules_url: str) -> None:
    values = _values()
    await page.goto(modules_url)
    texts = await page.evaluate(SHOWN, [values, UNITS])
    for figure, text in zip(product(values, UNITS), texts, strict=True):
        assert text == shown(*figure), figure
