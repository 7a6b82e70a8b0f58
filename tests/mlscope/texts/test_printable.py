"""Texts of others, made harmless."""

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
    ],
)
def test_codes_become_readable(text: str, line: str) -> None:
    assert printable(text) == line


def test_lines_stay_where_they_may() -> None:
    assert printable_lines("a\x1b\nb\r") == "a\\x1b\nb "
    assert escaped("a\nb") == r"a\nb"


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-x", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_text_that_begins_like_a_formula_is_none_in_a_spreadsheet(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", [-1.5, None, "-1.5", "+2e-3", "+19%", "-inf", "a=b", "", "ünï"])
def test_numbers_and_plain_texts_stay_as_they_are(value: object) -> None:
    assert csv_cell(value) is value
