"""Texts that are cut are told apart as long as they can be, and never wider than asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.texts.shortening import (
    at_begin,
    at_end,
    at_most,
    in_middle,
    least_size,
    shortened,
    width,
)


def test_each_way_says_where_it_cut() -> None:
    ways = [way("layer4.1.conv1", 8) for way in (at_end, in_middle, at_begin)]
    assert ways == ["layer4.…", "la…conv1", "…1.conv1"]
    assert [way("short", 8) for way in (at_end, in_middle, at_begin)] == ["short"] * 3


def test_texts_are_cut_where_they_are_alike() -> None:
    assert shortened(["a long note", "b long note"], 6) == ["a lon…", "b lon…"]
    assert shortened(["layer4.0.conv1", "layer4.0.conv2"], 8) == ["la…conv1", "la…conv2"]
    ends = shortened(["first.same.expand/relu", "other.same.reduce/relu"], 8)
    assert len(set(ends)) == 2


def test_the_least_size_is_where_texts_are_still_unlike() -> None:
    texts = [f"blocks.{number}.conv_dw" for number in range(12)]
    size = least_size(texts, 4)
    assert len(set(shortened(texts, size))) == 12
    assert len(set(shortened(texts, size - 1))) < 12
    assert least_size(texts, 17) == 17
    assert least_size([], 8) == 8


_TEXT = st.text(st.characters(categories=("L", "N", "M")), max_size=30)


@given(st.lists(_TEXT, max_size=6), st.integers(2, 20))
def test_nothing_is_wider_than_asked(texts: list[str], size: int) -> None:
    found = shortened(texts, size)
    assert all(width(text) <= size for text in found)
    assert all(new == old for new, old in zip(found, texts, strict=True) if width(old) <= size)


@given(_TEXT, st.integers(2, 20))
def test_as_much_is_kept_as_fits(text: str, size: int) -> None:
    head, tail = at_end(text, size), at_begin(text, size)
    if width(text) > size:
        kept = len(head) - 1
        assert head.startswith(text[:kept].rstrip())
        assert width(text[: kept + 1]) > size - 1
        assert width(text[len(text) - len(tail) :]) > size - 1
        assert text.endswith(tail[1:])


def test_a_very_long_text_is_cut_in_one_pass() -> None:
    """An agent's error text may have millions of characters."""
    text = "\N{CJK UNIFIED IDEOGRAPH-65E5}" * 300_000
    assert [len(way(text, 7)) for way in (at_end, in_middle, at_begin)] == [4, 4, 4]
    assert (at_most(text, 7), at_most("seven c", 7)) == (text[:6] + "…", "seven c")


@pytest.mark.parametrize("way", [at_end, in_middle, at_begin])
def test_wide_characters_are_never_cut_in_halves(way: object) -> None:
    assert callable(way)
    assert width(way("\N{CJK UNIFIED IDEOGRAPH-65E5}" * 9, 6)) <= 6
