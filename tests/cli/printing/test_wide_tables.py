"""Wide tables on a terminal: what is alike is said once, intervals stand in their cells."""

import pytest

from cli.printing.output import Rows, table_lines
from cli.printing.wide_tables import (
    Cells,
    group_by_run,
    is_wide,
    split_constant_columns,
    split_to_fit,
    transposed,
    with_intervals,
)
from mlscope.texts.shortening import width

CELLS = Cells(
    ("run", "level", "time", "time_low", "time_high", "doubt"),
    (
        ("a", "model", "5 ms", "4 ms", "6 ms", ""),
        ("b", "model", "7 ms", "900 \N{MICRO SIGN}s", "8 ms", ""),
    ),
    (False, False, True, True, True, False),
)


def test_an_interval_stands_in_its_estimates_cell() -> None:
    found = with_intervals(CELLS)
    assert found.heads == ("run", "level", "time", "doubt")
    told = [row[2] for row in found.rows]
    assert told == ["5 ms (4 … 6 ms)", "7 ms (900 \N{MICRO SIGN}s … 8 ms)"]
    assert found.to_right == (False, False, True, False)


def test_an_estimate_without_an_interval_stands_alone() -> None:
    dash = "\N{EN DASH}"
    cells = Cells(("t", "t_low", "t_high"), (("5 ms", dash, dash),), (True, True, True))
    assert with_intervals(cells).rows == (("5 ms",),)


def test_an_interval_with_one_known_end_is_not_left_out() -> None:
    dash = "\N{EN DASH}"
    cells = Cells(("t", "t_low", "t_high"), (("5 ms", "4 ms", dash),), (True, True, True))
    assert with_intervals(cells).rows == (("5 ms (4 ms … unknown)",),)


def test_what_is_alike_in_every_row_is_said_once() -> None:
    lines, rest = split_constant_columns(CELLS, 80)
    assert lines == ["in every row: level model", "empty in every row: doubt"]
    assert rest.heads == ("run", "time", "time_low", "time_high")
    assert rest.rows[1][0] == "b"


def test_a_turned_table_has_a_line_a_column() -> None:
    lines = [line.split() for line in transposed(CELLS, 80)]
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


def _layers(runs: int, layers: int, numbers: int = 3) -> Rows:
    """Return layers of several runs, as A2 has them: names alike at both ends, many numbers."""
    counters = tuple(f"counter{number}" for number in range(numbers))
    columns = ("run", "batch_size", "scenario", "index", "name", "shape", *counters)
    rows = tuple(
        (
            *(f"b{2**run}-online-framework", 2**run, "online", layer),
            f"blocks.{layer}.conv_dw.activation",
            "[1, 32, 112, 112]",
            *(1e5 * (layer + 1) for _ in range(numbers)),
        )
        for run in range(runs)
        for layer in range(layers)
    )
    return Rows(columns, rows, units=("",) * 6 + ("ns",) * numbers, title="Layers")


def test_what_the_rows_of_a_run_have_alike_is_said_before_them() -> None:
    lines = table_lines(_layers(2, 12), fit=80)
    assert "b1-online-framework, batch_size 1:" in lines[2]
    assert lines[2].startswith("run ")
    assert sum("blocks.11.conv_dw.activation" in line for line in lines) == 2
    assert lines[15].startswith("run b2-online-framework")


def test_runs_of_a_row_each_stay_rows() -> None:
    heads, right = ("run", "time"), (False, True)
    alone = Cells(heads, tuple((f"b{n}", f"{n} ms") for n in range(9)), right)
    assert group_by_run(alone, 80) == ({}, alone)
    apart = Cells(heads, tuple((f"b{n % 2}", f"{n} ms") for n in range(9)), right)
    assert group_by_run(apart, 80) == ({}, apart)
    no_run = Cells(("name", "time"), apart.rows, right)
    assert group_by_run(no_run, 80) == ({}, no_run)


@pytest.mark.parametrize("fit", [60, 80, 100])
@pytest.mark.parametrize("numbers", [3, 9, 20])
def test_no_line_is_wider_than_the_terminal_and_each_row_is_told(fit: int, numbers: int) -> None:
    lines = table_lines(_layers(2, 12, numbers), fit=fit)
    assert max(map(width, lines)) <= fit
    assert sum(line.count("00 \N{MICRO SIGN}s") for line in lines) == 2 * 9 * numbers
    told = [line for line in lines if "00 \N{MICRO SIGN}s" in line]
    of_runs = [told[start : start + 9] for start in range(0, len(told), 9)]
    assert all(len(set(lines)) == 9 for lines in of_runs)


def test_parts_of_a_table_begin_with_what_tells_rows_apart() -> None:
    cells = Cells(
        ("index", "name", *(f"counter{n}" for n in range(6))),
        tuple((str(n), f"layer{n}", *("123456789",) * 6) for n in range(4)),
        (True, False, *(True,) * 6),
    )
    parts = split_to_fit(cells, {}, 50)
    assert [each.heads[:2] for each in parts] == [("index", "name")] * len(parts)
    assert [name for each in parts for name in each.heads[2:]] == list(cells.heads[2:])
    assert len(parts) == 2
    assert split_to_fit(cells, {}, 0) == [cells]
    assert split_to_fit(cells, {}, 100) == [cells]


def test_a_table_without_rows_spares_a_terminal_its_headings() -> None:
    empty = Rows(("run", "time"), (), title="Empty")
    assert table_lines(empty, fit=80) == ["(no rows)"]
    assert table_lines(empty) == ["run  time"]
