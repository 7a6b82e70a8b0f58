"""Tables narrowed by `--run`, `--sort`, `--limit` and `--columns`, one by one and together."""

import math

import pytest

from cli.failures import Misused
from cli.printing.narrowing import Narrowing
from schemas.analysis import Column, Table

ROWS = (("r0", 3.0, "b"), ("r1", None, "a"), ("r0", 1.0, "c"), ("r1", 2.0, "d"))


def a_table(name: str = "latency", *columns: str) -> Table:
    columns = columns or ("run", "p50", "note")
    types = ("text", "float", "text")
    described = tuple(
        Column(name=column, type=type_) for column, type_ in zip(columns, types, strict=True)
    )
    return Table(name=name, title="", columns=described, rows=ROWS, verdict="")


def rows(**asked: object) -> list[tuple[object, ...]]:
    """Return the rows of one table narrowed by what is asked."""
    (narrowed,) = Narrowing(**asked).of([a_table()])  # type: ignore[arg-type]
    return list(narrowed.rows)


def test_nothing_asked_leaves_tables_as_they_are() -> None:
    assert Narrowing().of([a_table()]) == [a_table()]


def test_a_run_keeps_its_rows_in_their_order() -> None:
    assert rows(run="r1") == [ROWS[1], ROWS[3]]
    with pytest.raises(Misused, match="no run r; its runs: r0, r1"):
        rows(run="r")
    (none,) = Narrowing(run="r2").of([a_table()], ("r0", "r1", "r2"))
    assert not none.rows


def test_rows_without_a_value_come_last_in_both_directions() -> None:
    assert [row[1] for row in rows(sort="p50")] == [1.0, 2.0, 3.0, None]
    assert [row[1] for row in rows(sort="-p50")] == [3.0, 2.0, 1.0, None]


def test_equal_rows_stay_in_their_order() -> None:
    assert [row[2] for row in rows(sort="run")] == ["b", "c", "a", "d"]
    assert [row[2] for row in rows(sort="-run")] == ["a", "d", "b", "c"]


def test_the_limit_counts_rows_after_sorting_and_0_is_all() -> None:
    assert [row[1] for row in rows(sort="p50", limit=2)] == [1.0, 2.0]
    assert len(rows(limit=0)) == len(rows(limit=9)) == len(ROWS)


def test_columns_come_in_the_order_asked_for() -> None:
    (narrowed,) = Narrowing(columns=("note", "run")).of([a_table()])
    assert [column.name for column in narrowed.columns] == ["note", "run"]
    assert narrowed.rows[0] == ("b", "r0")


def test_rows_are_sorted_by_a_column_that_is_not_printed() -> None:
    assert rows(sort="p50", columns=("note",), run="r0") == [("c",), ("b",)]


def test_a_table_without_the_column_is_not_narrowed_by_it() -> None:
    other = a_table("levels", "level", "p50", "text")
    narrowing = Narrowing(run="r1", sort="-note", columns=("run",))
    narrowed = narrowing.of([a_table(), other])
    assert narrowed[0].rows == (("r1",), ("r1",))
    assert narrowed[1] == other


@pytest.mark.parametrize(
    ("asked", "option", "column"),
    [
        ({"sort": "-speed"}, "--sort", "speed"),
        ({"columns": ("p50", "speed")}, "--columns", "speed"),
    ],
)
def test_a_column_of_no_table_is_refused_with_those_there_are(
    asked: dict[str, object], option: str, column: str
) -> None:
    with pytest.raises(Misused) as refused:
        rows(**asked)
    assert str(refused.value) == f"{option}: no column {column}; known columns: note, p50, run"


def test_a_run_of_tables_without_runs_is_refused() -> None:
    with pytest.raises(Misused, match=r"^--run: no column run; known columns: a, b, c$"):
        Narrowing(run="r0").of([a_table("levels", "a", "b", "c")])


def test_no_table_at_all_is_narrowed_to_none() -> None:
    assert Narrowing(run="r0", sort="speed").of([]) == []


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(Misused, match="--limit -1: expected a number of rows, or 0 for all"):
        rows(limit=-1)


def test_a_number_that_is_none_does_not_disturb_the_order_of_the_others() -> None:
    times = (3.0, math.nan, 2.0, math.nan, 1.0)
    table = a_table().model_copy(update={"rows": tuple(("r0", time, "") for time in times)})
    for sort, ordered in (("p50", [1.0, 2.0, 3.0]), ("-p50", [3.0, 2.0, 1.0])):
        (narrowed,) = Narrowing(sort=sort).of([table])
        *numbers, first, last = [row[1] for row in narrowed.rows]
        assert numbers == ordered
        assert math.isnan(first)
        assert math.isnan(last)
