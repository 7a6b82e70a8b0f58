"""Sentences that comparisons share."""

import pytest

from services.analyzer.comparisons.verdicts import changes_text


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({"same": 8}, "8 pairs: none is slower or faster with an interval that excludes 0"),
        ({"same": 7, "faster": 1}, "8 pairs: 1 is faster with an interval that excludes 0"),
        (
            {"slower": 2, "faster": 6},
            "8 pairs: 2 are slower and 6 are faster with intervals that exclude 0",
        ),
        ({"slower": 1}, "8 pairs: it is slower with an interval that excludes 0"),
        (
            {"same": 7, "unknown": 1},
            "8 pairs: none is slower or faster with an interval that excludes 0; 1 has no",
        ),
    ],
)
def test_changes_are_counted_where_intervals_exclude_0(counts: dict[str, int], text: str) -> None:
    assert changes_text("8 pairs", counts).startswith(text)


def test_how_large_a_change_is_at_least_is_said() -> None:
    assert changes_text("1 pair", {"slower": 1}, " by 1% or more").endswith(
        "by 1% or more with an interval that excludes 0"
    )
