"""`analyze` on a terminal: no verdict is cut."""

from cli.commands.analyzing import folded_lines
from cli.output import table_lines

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
