"""Texts of others, made harmless."""

import pytest

from mlscope.printable import escaped, printable, printable_lines


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
