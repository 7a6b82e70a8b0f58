"""`analyze` on a terminal: no verdict is cut, no caveat is silent, no line is too wide."""

import sys
from pathlib import Path

import pytest

from cli import exits
from cli.commands.analyze import caveats_hint, lines_without_rows, plot, wrapped_verdicts
from cli.failures import Misused
from cli.printing.output import table_lines
from cli.printing.results import table_names, write_tables
from schemas.analysis import Column, Table
from tests.cli.conftest import CommandLine
from tests.cli.printing.terminal import Terminal
from tests.cli.printing.test_bars import a_table
from tests.stand_ins import StandIns
from tests.stories import LATENCY, whole_story

E1 = "00000000000000e1"
LINES = [
    {"id": "A2", "table": "layers", "rows": 53, "verdict": " ".join(["word"] * 40)},
    {"id": "", "table": "levels", "rows": 7, "verdict": "short"},
]


def test_a_long_verdict_goes_on_below_its_line() -> None:
    printed = table_lines(wrapped_verdicts(LINES, 80), fit=80)
    assert max(map(len, printed)) <= 80
    assert sum(line.count("word") for line in printed) == 40
    assert [line.split()[0] for line in printed if line[:2] == "A2"] == ["A2"]


def test_a_short_one_stays_on_its_line() -> None:
    assert table_lines(wrapped_verdicts(LINES, 80), fit=80)[-1].split() == ["levels", "7", "short"]


def test_tables_without_rows_are_named_after_their_reason() -> None:
    empty = [
        {"id": "A2", "table": "layers", "rows": 0, "verdict": "No run has layers."},
        LINES[1],
        {"id": "A8", "table": "kernels", "rows": 0, "verdict": "No run has kernels."},
        {"id": "A4", "table": "layer_types", "rows": 0, "verdict": "No run has layers."},
    ]
    assert lines_without_rows(empty) == [
        "",
        "No run has layers: layers, layer_types",
        "No run has kernels: kernels",
    ]
    assert max(map(len, lines_without_rows(empty, 30))) <= 30
    assert lines_without_rows(LINES) == []


async def test_what_has_rows_is_printed_before_what_has_none(
    mlscope: CommandLine, standing: StandIns
) -> None:
    layers = {"name": "layers", "id": "A2", "rows": (), "verdict": "No run has layers."}
    empty = LATENCY.model_copy(update=layers)
    standing.held = [empty, LATENCY, empty.model_copy(update={"name": "layer_types", "id": "A4"})]
    await standing.tell(*whole_story(E1))
    heads, latency, *others = (await mlscope("analyze", E1)).out.splitlines()
    assert heads.split() == ["id", "table", "rows", "verdict"]
    assert latency.split()[0] == "latency"
    assert others == ["", "No run has layers: layers, layer_types"]
    names = [table["name"] for table in (await mlscope("analyze", E1, "-o", "json")).json()]
    assert names == ["layers", "latency", "layer_types"]


def test_tables_with_caveats_are_marked_and_named_in_a_command() -> None:
    lines = [{**LINES[0], "caveats": 2}, LINES[1]]
    printed = table_lines(wrapped_verdicts(lines, 80), fit=80)
    assert max(map(len, printed)) <= 80
    assert [line.split()[1] for line in printed if line[:2] == "A2"] == ["layers*"]
    assert printed[-1].split() == ["levels", "7", "short"]
    assert caveats_hint(lines, "e1") == (
        "1 table has its own caveats; to print them: mlscope analyze e1 layers"
    )
    assert caveats_hint([lines[0], {**LINES[1], "caveats": 1}], "e1") == (
        "2 tables have their own caveats; to print them: mlscope analyze e1 layers levels"
    )
    assert caveats_hint(LINES, "e1") == ""


def test_tables_are_called_in_any_case() -> None:
    assert table_names(["a2", "A13", "Layers", "a14x"]) == ["A2", "A13", "layers", "a14x"]


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


async def test_analyses_are_a_line_each_and_whole_by_number(
    mlscope: CommandLine, standing: StandIns
) -> None:
    update = {"name": "kernels", "id": "A8", "verdict": "None is long."}
    standing.held = [LATENCY, LATENCY.model_copy(update=update)]
    await standing.tell(*whole_story(E1))
    lines = (await mlscope("analyze", E1, "-o", "json")).json()
    assert [(each["id"], each["name"]) for each in lines] == [("", "latency"), ("A8", "kernels")]
    assert "None is long." in (await mlscope("analyze", E1)).out
    (whole,) = (await mlscope("analyze", E1, "kernels", "-o", "json")).json()
    assert (whole["id"], whole["rows"][0].keys()) == ("A8", {"run", "p50"})
    for called in ("kernels", "a8", "Kernels"):
        printed = await mlscope("analyze", E1, called, "-o", "csv")
        assert printed.out.startswith("run,p50\n"), printed.err
    assert (await mlscope("tables", E1, "a8", "-o", "csv")).out.startswith("run,p50\n")


async def test_analyses_in_short_say_which_of_them_have_caveats(
    mlscope: CommandLine, standing: StandIns
) -> None:
    noted = {"name": "kernels", "id": "A8", "caveats": ("r0: noisy", "r0: few")}
    latency = LATENCY.model_copy(update={"caveats": ("r0: noisy",)})
    standing.held = [latency, LATENCY.model_copy(update=noted)]
    await standing.tell(*whole_story(E1))
    short = await mlscope("analyze", E1)
    assert short.err.splitlines() == [
        "note: r0: noisy",
        f"1 table has its own caveats; to print them: mlscope analyze {E1} kernels",
    ]
    assert "*" not in short.out
    assert (await mlscope("analyze", E1, "-o", "csv")).err == ""


def test_a_chart_is_drawn_on_the_terminal_or_into_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = a_table(5)
    assert plot([table], "") == exits.OK
    assert "█" in capsys.readouterr().out
    for name in ("layers.svg", "LAYERS.SVG"):
        assert plot([table], str(tmp_path / name)) == exits.OK
        assert (tmp_path / name).read_text().startswith("<svg")


async def test_a_plot_is_asked_for_by_number(
    mlscope: CommandLine, standing: StandIns, tmp_path: Path
) -> None:
    standing.held = [a_table(5, name="layer_latency", id="A3")]
    await standing.tell(*whole_story(E1))
    assert "█" in (await mlscope("analyze", E1, "A3", "--plot")).out
    for name, beginning in (("a3.svg", b"<svg"), ("a3.png", b"\x89PNG")):
        path = tmp_path / name
        printed = await mlscope("analyze", E1, "A3", "--plot", str(path))
        assert (printed.out, printed.err) == (f"{path}\n", "")
        assert path.read_bytes().startswith(beginning)


@pytest.mark.parametrize(
    ("tables", "target", "said"),
    [
        ([a_table(5), a_table(5)], "layers.svg", "draws one table"),
        ([a_table(5)], "layers.doc", "expected a file .svg"),
        ([a_table(5).model_copy(update={"chart": None})], "layers.svg", "has no chart"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tables: list[Table], target: str, said: str) -> None:
    with pytest.raises(Misused, match=said):
        plot(tables, target)
