"""Rows as a table, JSON or CSV: the same data, valid in each."""

import csv
import io
import json

import pytest

from cli.printing.output import Rows, rows_of, table_lines, width_of, write_json, write_rows
from schemas.analysis import Column, Table
from tests.cli.printing.terminal import Terminal

ROWS = Rows(("name", "time_ns"), (("a, b", 5_000_000.0), ("ünï", None)), units=("", "ns"))


def written(form: str, rows: Rows = ROWS) -> str:
    out = io.StringIO()
    write_rows(rows, form, out)
    return out.getvalue()


def test_json_keeps_plain_numbers() -> None:
    assert json.loads(written("json"))[0] == {"name": "a, b", "time_ns": 5_000_000.0}
    assert "ünï" in written("json")


def test_texts_of_others_do_not_act_on_a_terminal() -> None:
    """They could delete a line, or make one that looks like one of ours."""
    text = "no\nada added\x1b[1A\x1b[2K\x9b1A\u202e"
    (line,) = written("table", Rows(("reason",), ((text,),))).splitlines()[1:]
    assert line == r"no ada added\x1b[1A\x1b[2K\x9b1A\u202e"
    assert json.loads(written("json", Rows(("reason",), ((text,),))))[0]["reason"] == text


def test_csv_quotes_what_it_must() -> None:
    rows = list(csv.DictReader(io.StringIO(written("csv"))))
    assert rows == [{"name": "a, b", "time_ns": "5000000.0"}, {"name": "ünï", "time_ns": ""}]
    assert written("csv", Rows(("reason", "gain"), (("=1+1", -2),))) == "reason,gain\n'=1+1,-2\n"


def test_a_table_has_units_and_no_colour_in_a_pipe() -> None:
    assert written("table").splitlines()[1].split() == ["a,", "b", "5", "ms"]
    assert "\x1b" not in written("table")


def test_a_terminal_gets_a_heading_in_bold_within_its_width(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal()
    long = Rows(("name", "note"), (("a", "long " * 30),))
    write_rows(long, "table", terminal)
    head, body = terminal.getvalue().splitlines()
    assert head.startswith("\x1b[1mname")
    assert (len(body), width_of(terminal), width_of(io.StringIO())) == (40, 40, 0)


@pytest.mark.parametrize(("value", "is_bold"), [("1", False), ("", True)])
def test_nothing_is_bold_for_who_wants_no_colour(
    monkeypatch: pytest.MonkeyPatch, value: str, is_bold: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    terminal = Terminal()
    write_rows(ROWS, "table", terminal)
    assert ("\x1b" in terminal.getvalue()) is is_bold


def test_numbers_that_json_lacks_are_null() -> None:
    rows = Rows(("x",), ((float("nan"),), (float("inf"),)))
    assert json.loads(written("json", rows)) == [{"x": None}, {"x": None}]
    with pytest.raises(ValueError, match="JSON"):
        write_json(float("nan"), io.StringIO())


def test_columns_that_are_there_are_kept() -> None:
    assert ROWS.select(("time_ns", "none")).columns == ("time_ns",)
    assert ROWS.select(("none",)) == ROWS


def test_records_become_rows_and_tables_bring_units() -> None:
    assert rows_of([{"a": 1}, {"b": 2}], ("a", "b")).rows == ((1, None), (None, 2))
    column = Column(name="t", type="float", unit="ns")
    table = Table(name="n", title="", columns=(column,), rows=((1e6,),), verdict="v")
    rows = Rows.of_table(table)
    assert (rows.title, rows.note, table_lines(rows)) == ("n", "v", ["   t", "1 ms"])


def test_a_table_lines_up_numbers_to_the_right() -> None:
    rows = Rows(("name", "p50"), (("a", 5_000_000), ("bcd", 70)), units=("", "ns"))
    assert table_lines(rows) == ["name    p50", "a      5 ms", "bcd   70 ns"]
    assert table_lines(Rows(("x",), ())) == ["x"]
