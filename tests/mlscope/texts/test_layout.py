"""Tables of text: aligned, and within the width of a terminal where they can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.texts.layout import folded, laid_out, least_widths, wrapped
from mlscope.texts.shortening import width

_HEADS = ("run", "trimmed_mean", "note")
_ROWS = (("b1-online-model", "5 ms", "a long note on this run"), ("b2", "120 ms", ""))
_RIGHT = (False, True, False)


def test_without_a_width_nothing_is_cut() -> None:
    layout = laid_out(_HEADS, _ROWS, _RIGHT)
    assert layout.head == ["run              trimmed_mean  note"]
    assert layout.body == [
        "b1-online-model          5 ms  a long note on this run",
        "b2                     120 ms",
    ]


def test_headings_break_before_anything_is_cut() -> None:
    layout = laid_out(_HEADS, _ROWS, _RIGHT, fit=50)
    assert layout.head == ["                 trimmed", "run                 mean  note"]
    assert layout.body[0] == "b1-online-model     5 ms  a long note on this run"


def test_a_heading_is_no_taller_than_its_cells_allow() -> None:
    layout = laid_out(("a_b_c_d_e",), [["123"]], [True], fit=4)
    assert layout.head == ["a_b", "c_d", "  e"]


def test_the_last_texts_are_cut_first_and_numbers_never() -> None:
    layout = laid_out(_HEADS, _ROWS, _RIGHT, fit=36)
    assert layout.body[0] == "b1-online-model    5 ms a long note…"
    least = laid_out(_HEADS, _ROWS, _RIGHT, fit=1)
    assert least.body[0] == "b1-onli…    5 ms a long…"


_LAYERS = tuple(
    ("b1-online-framework", f"blocks.{number}.conv_dw", "Conv2d", "1 ms") for number in range(20)
)
_OF_LAYERS = ("run", "name", "type", "time")


@pytest.mark.parametrize("fit", [34, 38, 42])
def test_what_tells_rows_apart_still_does_where_a_terminal_is_narrow(fit: int) -> None:
    layout = laid_out(_OF_LAYERS, _LAYERS, (False, False, False, True), fit)
    assert max(map(width, layout.body)) <= fit
    assert len(set(layout.body)) == len(_LAYERS)
    assert all(line.endswith(" 1 ms") for line in layout.body)


def test_the_least_widths_are_those_at_which_a_table_tells_its_rows_apart() -> None:
    to_right = (False, False, False, True)
    assert least_widths(_OF_LAYERS, _LAYERS, to_right, 80) == [8, 10, 6, 4]
    kernels = [("void " * 60 + str(number), "1 ms") for number in range(3)]
    far = [(f"{'void ' * 60}{number}{' ' * 99}end", "1 ms") for number in range(3)]
    assert least_widths(("name", "time"), kernels, (False, True), 80) == [8, 4]
    assert least_widths(("name", "time"), far, (False, True), 80) == [40, 4]


def test_a_long_name_leaves_folded_texts_half_of_the_terminal() -> None:
    rows = [(f"/a/long/path/{'x' * 60}/{name}.jpg", "golden retriever") for name in "ab"]
    layout = folded(("file", "answer"), rows, (False, False), fit=60)
    assert max(map(width, layout.body)) <= 60
    assert [line[-16:] for line in layout.body] == ["golden retriever"] * 2
    assert len(set(layout.body)) == 2


def test_wide_and_combining_characters_count_as_they_are_shown() -> None:
    assert [width(text) for text in ("abc", "日本", "e\u0301")] == [3, 4, 1]
    assert laid_out(("x", "y"), [("日本", "1"), ("ab", "2")], (False, True)).body == [
        "日本  1",
        "ab    2",
    ]


def test_no_rows_are_a_heading() -> None:
    assert laid_out(("a", "b"), (), (False, False)).head == ["a  b"]


_CELL = st.text(st.characters(categories=("L", "N")), max_size=30)


@given(st.lists(st.tuples(_CELL, _CELL, _CELL), max_size=5), st.integers(70, 120))
def test_what_can_be_fitted_is(rows: list[tuple[str, str, str]], fit: int) -> None:
    layout = laid_out(("a", "b", "c"), rows, (False, False, False), fit)
    assert len(layout.body) == len(rows)
    first = max((width(row[0]) for row in rows), default=1)
    assert all(width(line) <= max(fit, first + 18) for line in (*layout.head, *layout.body))


def test_a_folded_table_keeps_every_word_and_cuts_none() -> None:
    layout = folded(_HEADS, _ROWS, _RIGHT, fit=36)
    assert layout.body == [
        "b1-online-model     5 ms  a long",
        "                          note on",
        "                          this run",
        "b2                120 ms",
    ]
    assert folded(_HEADS, _ROWS, _RIGHT).body[0].endswith("5 ms  a long note on this run")
    whole = max(map(width, folded(_HEADS, _ROWS, _RIGHT).body))
    narrow = folded(_HEADS, _ROWS, _RIGHT, whole - 1).body
    assert (len(narrow), narrow[0].endswith("5 ms a long note on this run")) == (len(_ROWS), True)
    long = folded(("a", "b"), [("x", "word " * 20)], (False, False))
    assert max(map(width, long.body)) <= 40


def test_words_are_broken_only_where_nothing_else_fits() -> None:
    rows = [("n", "tensorflow:2.20.1 jax:1", "one two three four")]
    assert "tensorflow:2.20.1" in folded(("a", "b", "c"), rows, (False,) * 3, fit=30).body[0]
    assert "tensorflow:2.20.1" not in "".join(folded(("a", "b", "c"), rows, (False,) * 3, 21).body)


@given(st.lists(st.tuples(_CELL, _CELL, _CELL), max_size=5), st.integers(70, 120))
def test_what_can_be_folded_fits(rows: list[tuple[str, str, str]], fit: int) -> None:
    layout = folded(("a", "b", "c"), rows, (False, False, False), fit)
    first = max((width(row[0]) for row in rows), default=1)
    assert all(width(line) <= max(fit, 2 * first + 40) for line in layout.body)


def test_a_sentence_breaks_between_words_alone() -> None:
    assert wrapped("one two-three four", 9) == ["one", "two-three", "four"]
    assert wrapped("one two", 0) == ["one two"]
    assert wrapped("", 9) == [""]
