"""Sentences that comparisons share."""

import pytest

from services.analyzer.comparisons.verdicts import changes_text


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({"same": 8}, "8 pairs: none is slower or faster beyond its interval"),
        ({"same": 7, "faster": 1}, "8 pairs: 1 is faster beyond its interval"),
        (
            {"slower": 2, "faster": 6},
            "8 pairs: 2 are slower and 6 are faster beyond their intervals",
        ),
        ({"slower": 1}, "8 pairs: it is slower beyond its interval"),
        (
            {"same": 7, "unknown": 1},
            "8 pairs: none is slower or faster beyond its interval; 1 has no",
        ),
    ],
)
def test_changes_are_counted_beyond_their_intervals(counts: dict[str, int], text: str) -> None:
    assert changes_text("8 pairs", counts).startswith(text)


def test_what_a_change_exceeds_besides_its_interval_is_said() -> None:
    assert changes_text("1 pair", {"slower": 1}, " and 1%").endswith("beyond its interval and 1%")
