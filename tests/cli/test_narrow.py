"""Wide tables on a terminal: what is alike is said once, intervals stand in their cells."""

from cli.narrow import Cells, bounded, is_wide, parted, turned
from cli.output import Rows, table_lines

CELLS = Cells(
    ("run", "level", "time", "time_low", "time_high", "doubt"),
    (
        ("a", "model", "5 ms", "4 ms", "6 ms", ""),
        ("b", "model", "7 ms", "900 \N{MICRO SIGN}s", "8 ms", ""),
    ),
    (False, False, True, True, True, False),
)


def test_an_interval_stands_in_its_estimates_cell() -> None:
    found = bounded(CELLS)
    assert found.heads == ("run", "level", "time", "doubt")
    told = [row[2] for row in found.rows]
    assert told == ["5 ms [4, 6 ms]", "7 ms [900 \N{MICRO SIGN}s, 8 ms]"]
    assert found.to_right == (False, False, True, False)


def test_an_estimate_without_an_interval_stands_alone() -> None:
    dash = "\N{EN DASH}"
    cells = Cells(("t", "t_low", "t_high"), (("5 ms", dash, dash),), (True, True, True))
    assert bounded(cells).rows == (("5 ms",),)


def test_what_is_alike_in_every_row_is_said_once() -> None:
    lines, rest = parted(CELLS, 80)
    assert lines == ["in every row: level model", "empty in every row: doubt"]
    assert rest.heads == ("run", "time", "time_low", "time_high")
    assert rest.rows[1][0] == "b"


def test_a_turned_table_has_a_line_a_column() -> None:
    lines = [line.split() for line in turned(CELLS, 80)]
    assert lines[:2] == [["run", "a", "b"], ["level", "model", "model"]]


def test_a_table_is_wide_by_its_cells_or_its_headings() -> None:
    assert is_wide(CELLS, 20)
    assert not is_wide(CELLS, 60)
    assert not is_wide(CELLS, 0)


def _rows(count: int) -> Rows:
    columns = ("name", *(f"column{n}" for n in range(9)))
    rows = tuple((f"row{r}", *("alike" for _ in range(8)), r) for r in range(count))
    return Rows(columns, rows, title="Wide")


def test_a_wide_table_fits_a_terminal_and_keeps_all_it_says() -> None:
    lines = table_lines(_rows(9), fit=60)
    assert max(map(len, lines)) <= 60
    assert lines[0].startswith("in every row: column0 alike, ")
    assert [line.split() for line in lines[-2:]] == [["row7", "7"], ["row8", "8"]]


def test_one_wide_row_is_turned() -> None:
    assert [line.split() for line in table_lines(_rows(1), fit=60)][:2] == [
        ["name", "row0"],
        ["column0", "alike"],
    ]


def test_a_pipe_gets_the_table_as_it_is() -> None:
    assert len(table_lines(_rows(9))) == 10
