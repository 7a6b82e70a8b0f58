"""Latency by block: of one block its figure, of several a chart."""

from typing import Any

import pytest

from services.analyzer.tables.blocks import ANALYSIS
from tests.services.analyzer.tables.reading import query, table_of


def _run(name: str, ms: float, blocks: int = 1) -> dict[str, Any]:
    """Return a run of three queries of so many `ms` in each of its `blocks`."""
    rows = [
        query(n, n * 10**9, round(n * 10**9 + ms * 1e6), block=n // 3) for n in range(3 * blocks)
    ]
    return {"run": name, "level": 2, "queries": rows}


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        ([_run("r", 5)], "r was measured in one block: its median is 5 ms."),
        (
            [_run("r", 5), _run("s", 7)],
            "Each run was measured in one block: the longest median is 7 ms, of s.",
        ),
        ([], "No run was measured in several blocks."),
    ],
)
def test_one_block_is_a_figure_and_no_chart(runs: list[dict[str, Any]], verdict: str) -> None:
    table = table_of(ANALYSIS, *runs)
    assert (table.verdict, table.chart) == (verdict, None)
    assert len(table.rows) == len(runs)


def test_several_blocks_are_a_chart() -> None:
    assert table_of(ANALYSIS, _run("r", 5, blocks=2)).chart == ANALYSIS.chart


def test_a_run_s_blocks_differ_most_only_beside_another_s() -> None:
    twice = _run("r", 5, blocks=2)
    alone = table_of(ANALYSIS, twice, _run("s", 7)).verdict
    assert alone.startswith("Medians of the blocks of r differ: the range is ")
    beside = table_of(ANALYSIS, twice, _run("s", 7, blocks=2)).verdict
    assert beside.startswith("Medians of blocks differ most in r: ")
