"""Copies of a call: the verdict names the slow kind of memory only where copies take long."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.analysis import Table
from services.analyzer.tables.copies import copies
from tests.services.analyzer.golden import frames_in

CASE = json.loads((Path(__file__).parents[3] / "golden/tables/copies/input.json").read_text())


def table_of(run: dict[str, Any]) -> Table:
    return copies(frames_in({"runs": [run]}))


def divided(memory: str, slower: int = 1) -> dict[str, Any]:
    """Return the run of divided calls with another memory, whose copies in take longer."""
    run = json.loads(json.dumps(CASE["runs"][0]))
    run["conditions"]["host_memory"] = memory
    for span in run["spans"]:
        span[5] *= slower if span[3] == "copy_in" else 1
    return dict(run)


@pytest.mark.parametrize(
    ("memory", "slower", "ending"),
    [
        ("page-locked", 1, "copies through page-locked memory take 4.1% of it."),
        ("page-locked", 10, "copies through page-locked memory take 29.8% of it."),
        ("pageable", 1, "copies through pageable memory take 4.1% of it."),
        (
            "pageable",
            10,
            "copies through pageable memory take 29.8% of it; page-locked memory is faster.",
        ),
        ("", 10, "copies take 29.8% of it."),
    ],
)
def test_a_verdict_names_memory_that_is_slow(memory: str, slower: int, ending: str) -> None:
    verdict = table_of(divided(memory, slower)).verdict
    assert verdict.startswith("A call of m takes 2")
    assert verdict.endswith(ending)


def test_a_call_that_was_not_divided_has_no_row() -> None:
    table = table_of(CASE["runs"][1])
    assert not table.rows
    assert table.verdict == "No call was divided into copies and computing."
