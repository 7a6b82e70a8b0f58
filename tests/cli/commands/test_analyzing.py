"""`analyze` on a terminal: no verdict is cut, no caveat is silent, no line is too wide."""

import sys

import pytest

from cli.commands.analyzing import caveats_told, folded_lines
from cli.commands.asking import as_called, write_tables
from cli.output import table_lines
from schemas.analysis import Column, Table
from tests.cli.test_output import Terminal

LINES = [
    {"id": "A2", "table": "layers", "rows": 53, "verdict": " ".join(["word"] * 40)},
    {"id": "", "table": "levels", "rows": 7, "verdict": "short"},
]


def test_a_long_verdict_goes_on_below_its_line() -> None:
    printed = table_lines(folded_lines(LINES, 80), fit=80)
    assert max(map(len, printed)) <= 80
    assert sum(line.count("word") for line in printed) == 40
    assert [line.split()[0] for line in printed if line[:2] == "A2"] == ["A2"]


def test_a_short_one_stays_on_its_line() -> None:
    assert table_lines(folded_lines(LINES, 80), fit=80)[-1].split() == ["levels", "7", "short"]


def test_tables_with_caveats_are_marked_and_named_in_a_command() -> None:
    lines = [{**LINES[0], "caveats": 2}, LINES[1]]
    printed = table_lines(folded_lines(lines, 80), fit=80)
    assert max(map(len, printed)) <= 80
    assert [line.split()[1] for line in printed if line[:2] == "A2"] == ["layers*"]
    assert printed[-1].split() == ["levels", "7", "short"]
    assert caveats_told(lines, "e1") == (
        "1 table has caveats of its own, printed by: mlscope analyze e1 layers"
    )
    assert caveats_told([lines[0], {**LINES[1], "caveats": 1}], "e1") == (
        "2 tables have caveats of their own, printed by: mlscope analyze e1 layers levels"
    )
    assert caveats_told(LINES, "e1") == ""


def test_tables_are_called_in_any_case() -> None:
    assert as_called(["a2", "A13", "Layers", "a14x"]) == ["A2", "A13", "layers", "a14x"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_caveats_are_wrapped_on_a_terminal_alone(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_terminal:
        monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "60")
    column = Column(name="t", type="float", unit="ns")
    said = ("r0: " + "word " * 30).strip()
    rows = ((1.0,),)
    table = Table(
        name="n", title="", columns=(column,), rows=rows, verdict="v", caveats=(said, "all: few")
    )
    write_tables([table], "table")
    told = sys.stderr.getvalue() if isinstance(sys.stderr, Terminal) else capsys.readouterr().err
    lines = told.splitlines()
    assert " ".join(lines) == f"n: {said} n: all: few"
    assert (max(map(len, lines)) <= 60) == is_terminal
    assert (len(lines) == 2) == (not is_terminal)
