"""Texts of others, made harmless."""

import sys
import unicodedata

import pytest

from mlscope.texts.printable import csv_cell, escaped, printable, printable_lines


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain ünï…", "plain ünï…"),
        ("a\nb\tc\r", "a b c "),
        ("\x1b]52;c;x\x07", r"\x1b]52;c;x\x07"),
        ("\x9b2K\x7f", r"\x9b2K\x7f"),
        ("\u202egpj\u2066", r"\u202egpj\u2066"),
        ("a\u200eb\u061c\ufeff\u200b\xad", r"a\u200eb\u061c\ufeff\u200b\xad"),
        ("tag\U000e0041", r"tag\U000e0041"),
    ],
)
def test_codes_become_readable(text: str, line: str) -> None:
    assert printable(text) == line


_DRAWN = set(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
"""Signs around a number or an abbreviation: Unicode's Prepended_Concatenation_Mark."""


def test_every_character_that_is_not_drawn_becomes_readable() -> None:
    every = map(chr, range(sys.maxunicode + 1))
    hidden = {one for one in every if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp")}
    assert {one for one in hidden if printable(one) == one} == _DRAWN


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
        "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}",
    ],
)
def test_joiners_stay_where_words_and_pictures_need_them(text: str) -> None:
    assert printable(text) == escaped(text) == text


@pytest.mark.parametrize("joiner", ["\u200c", "\u200d"])
def test_joiners_that_join_nothing_become_readable(joiner: str) -> None:
    readable = repr(joiner)[1:-1]
    for before, after in [("ad", "min"), ("", "\u0645"), ("\u0645", ""), ("\u0645", joiner)]:
        assert printable(f"{before}{joiner}{after}").startswith(f"{before}{readable}")


def test_lines_stay_where_they_may() -> None:
    assert printable_lines("a\x1b\nb\r") == "a\\x1b\nb "
    assert escaped("a\nb") == r"a\nb"


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-x", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_text_that_begins_like_a_formula_is_none_in_a_spreadsheet(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", [-1.5, None, "-1.5", "+2e-3", "+19%", "-inf", "a=b", "", "ünï"])
def test_numbers_and_plain_texts_stay_as_they_are(value: object) -> None:
    assert csv_cell(value) is value
