"""Copies of a call: the verdict names the slow kind of memory only where copies take long."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.analysis import Table
from services.analyzer.tables.copies import copies
from services.analyzer.tables.latency import latency
from services.analyzer.tables.levels import levels
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
            "copies through pageable memory take 29.8% of it; page-locked memory may be faster.",
        ),
        ("", 10, "copies take 29.8% of it."),
    ],
)
def test_a_verdict_names_memory_that_is_slow(memory: str, slower: int, ending: str) -> None:
    verdict = table_of(divided(memory, slower)).verdict
    assert verdict.startswith("A call of m takes 2")
    assert verdict.endswith(ending)


def test_times_have_their_intervals_and_no_advice_is_given_within_them() -> None:
    assert "2.94 ms (2.91 … 2.98) to copy in" in table_of(divided("page-locked")).verdict
    # Copies take more than 5% on average; by their interval they may take less.
    uncertain = divided("pageable", 4)
    copies_in = [span for span in uncertain["spans"] if span[3] == "copy_in"]
    for span in copies_in[::2]:
        span[5] //= 1000
    table = table_of(uncertain)
    assert dict(zip([c.name for c in table.columns], table.rows[0], strict=True))["share"] > 0.05
    assert "may be faster" not in table.verdict


def test_a_framework_whose_copies_are_not_told_apart_is_named_where_its_times_are() -> None:
    run = json.loads(json.dumps(CASE["runs"][1]))
    run["conditions"] = {"framework": "tensorflow", "copies": "together"}
    frames = frames_in({"runs": [run]})
    note = "copies are not timed separately from computing for tensorflow: predict includes both"
    assert copies(frames).verdict == f"C{note[1:]}."
    for table in (copies(frames), levels(frames), latency(frames)):
        assert note in table.caveats


def test_a_call_that_was_not_divided_has_no_row() -> None:
    table = table_of(CASE["runs"][1])
    assert not table.rows
    assert table.verdict == "No call was divided into copies and computing."
