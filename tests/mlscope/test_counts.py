"""Counts in sentences agree with their nouns and verbs."""

import pytest

from mlscope.counts import be, counted, many, verb


@pytest.mark.parametrize(
    ("count", "noun", "told"),
    [
        (1, "layer", "1 layer"),
        (0, "layer", "0 layers"),
        (2, "failed query", "2 failed queries"),
        (3, "batch", "3 batches"),
        (2, "box", "2 boxes"),
        (2, "day", "2 days"),
    ],
)
def test_nouns_are_of_their_count(count: int, noun: str, told: str) -> None:
    assert many(count, noun) == told


def test_means_of_one_are_singular() -> None:
    assert (counted(1.0, "call"), counted(1.5, "call")) == ("1 call", "1.5 calls")


def test_verbs_are_of_their_count() -> None:
    assert [be(0), be(1), verb(1, "has", "have"), verb(2, "has", "have")] == [
        "are", "is", "has", "have",
    ]  # fmt: skip
