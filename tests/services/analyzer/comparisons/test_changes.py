"""Layers and kernels of evaluations side by side."""

from typing import Any

from schemas.analysis import Table
from services.analyzer.building.table import estimate_columns, int_column, text_column
from services.analyzer.comparisons.changes import KERNELS, LAYERS, MOST_ROWS
from services.analyzer.comparisons.source import Source
from tests.services.analyzer.comparisons.reading import rows, table_of

COLUMNS = (
    text_column("run", "."),
    text_column("variant", "."),
    int_column("index", "."),
    text_column("name", "."),
    text_column("type", "."),
    *estimate_columns("time", "."),
)


def layer(name: str, time_ns: float | None, kind: str = "Conv", **more: Any) -> dict[str, Any]:
    """Return a row of layers, known to 1%."""
    ends = (None, None) if time_ns is None else (time_ns * 0.99, time_ns * 1.01)
    cells = {"run": "r", "variant": "", "index": 0, "name": name, "type": kind, "time": time_ns}
    return {**cells, "time_low": ends[0], "time_high": ends[1], **more}


def source(name: str, *layers: dict[str, Any], table: str = "layers") -> Source:
    """Return an evaluation with these layers."""
    cells = tuple(tuple(row[column.name] for column in COLUMNS) for row in layers)
    made = Table(name=table, title="", columns=COLUMNS, rows=cells)
    return Source(name, {table: made})


def test_the_largest_change_comes_first_and_what_is_in_one_only_is_listed() -> None:
    base = source("e1", layer("a", 100.0), layer("b", 1000.0), layer("gone", 50.0))
    other = source("e2", layer("a", 110.0), layer("b", 500.0), layer("new", 5.0))
    changes = rows(LAYERS, base, other)
    places = [(row["name"], row["found_in"]) for row in changes]
    assert places == [("b", "both"), ("gone", "first"), ("a", "both"), ("new", "other")]
    assert [row["result"] for row in changes] == ["faster", "unknown", "slower", "unknown"]
    assert [(row["change"], row["ratio"]) for row in changes[:2]] == [(-500, 0.5), (-50, None)]
    assert changes[0]["ratio_low"] < 0.5 < changes[0]["ratio_high"]
    verdict = table_of(LAYERS, [base, other]).verdict
    assert verdict.startswith(
        "2 layers: 1 is slower and 1 is faster with intervals that exclude 0; of the changed "
        "layers b changes the most, by "
    )
    assert verdict.endswith("; 2 layers are in one evaluation only.")


def test_layers_of_one_name_are_matched_in_their_order() -> None:
    base = source("e1", layer("a", 10.0), layer("a", 20.0))
    other = source("e2", layer("a", 11.0), layer("a", 40.0))
    assert [row["change"] for row in rows(LAYERS, base, other)] == [20.0, 1.0]


def test_models_with_other_names_are_matched_by_type() -> None:
    base = source("e1", layer("conv1", 10.0), layer("fc", 20.0, "Gemm"))
    other = source("e2", layer("Conv_0", 30.0), layer("Gemm_7", 21.0, "Gemm"))
    table = table_of(LAYERS, [base, other])
    first, second = rows(LAYERS, base, other)
    assert (first["name"], first["other_name"], first["change"]) == ("conv1", "Conv_0", 20.0)
    assert (second["other_name"], second["found_in"]) == ("Gemm_7", "both")
    assert any("matched by type" in caveat for caveat in table.caveats)


def test_serialised_runs_and_layers_that_never_ran_are_left_out() -> None:
    base = source("e1", layer("a", 10.0, variant="serialised"), layer("a", 20.0), layer("b", None))
    assert [row["name"] for row in rows(LAYERS, base, base)] == ["a"]


def test_only_the_largest_changes_are_listed() -> None:
    many = [layer(f"l{n}", float(n + 1)) for n in range(MOST_ROWS + 5)]
    base, other = source("e1", *many), source("e2", *(layer(f"l{n}", 1.0) for n in range(300)))
    table = table_of(LAYERS, [base, other])
    assert len(table.rows) == MOST_ROWS
    assert any("largest changes of 300 layers" in caveat for caveat in table.caveats)


def test_an_evaluation_without_them_says_so() -> None:
    base = source("e1", layer("k", 10.0), table="kernels")
    assert table_of(KERNELS, [base, Source("e2", {})]).verdict == "No other evaluation has kernels."
    table = table_of(KERNELS, [Source("e2", {}), base])
    assert table.verdict == "The first evaluation has no kernels."


def test_kernels_of_other_names_are_no_pair_whatever_their_kind() -> None:
    base = source("e1", layer("sgemm", 10.0), table="kernels")
    other = source("e2", layer("hgemm", 30.0), table="kernels")
    table = table_of(KERNELS, [base, other])
    assert [(row["name"], row["change"], row["ratio"]) for row in rows(KERNELS, base, other)] == [
        ("hgemm", 30.0, None),
        ("sgemm", -10.0, None),
    ]
    assert table.verdict == "No kernel is in both; 2 kernels are in one evaluation only."
    assert table.caveats == ()


def test_one_common_name_is_enough_to_match_by_names() -> None:
    base = source("e1", layer("a", 10.0), layer("b", 20.0))
    other = source("e2", layer("a", 10.0), layer("c", 25.0))
    table = table_of(LAYERS, [base, other])
    found_in = {row["name"]: row["found_in"] for row in rows(LAYERS, base, other)}
    assert found_in == {"a": "both", "b": "first", "c": "other"}
    assert table.caveats == ()


def test_every_further_evaluation_is_set_against_the_first() -> None:
    base, *others = (source(f"e{n}", layer("a", 100.0 * n)) for n in (1, 2, 3))
    told = [
        (row["evaluation"], row["first_time"], row["time"]) for row in rows(LAYERS, base, *others)
    ]
    assert told == [("e3", 100.0, 300.0), ("e2", 100.0, 200.0)]
    missing = table_of(LAYERS, [base, others[0], Source("e9", {})])
    assert missing.caveats == ("e9 has no layers",)


def test_a_change_within_its_interval_is_certain_of_nothing() -> None:
    base = source("e1", layer("a", 100.0), layer("b", 100.0))
    # Each is known to 1%: a difference of 1 may be none, one of 10 may not.
    other = source("e2", layer("a", 101.0), layer("b", 90.0))
    assert table_of(LAYERS, [base, other]).verdict.startswith(
        "2 layers: 1 is faster with an interval that excludes 0; b changes by -10"
    )


def test_the_largest_change_is_one_whose_interval_excludes_none() -> None:
    base = source("e1", layer("a", 100.0), layer("b", 10_000.0))
    # A change of b by 40 is within its 1%.
    other = source("e2", layer("a", 90.0), layer("b", 10_040.0))
    assert "; a changes by -10" in table_of(LAYERS, [base, other]).verdict
    slower = source("e2", layer("a", 100.1), layer("b", 10_040.0))
    verdict = table_of(LAYERS, [base, slower]).verdict
    assert "; the largest estimate is no certain change: b changes by 40" in verdict


def test_no_layer_changes_the_most_where_the_intervals_leave_two() -> None:
    base = source("e1", layer("a", 100.0), layer("b", 100.0), layer("c", 100.0))
    other = source("e2", layer("a", 50.0), layer("b", 150.5), layer("c", 110.0))
    assert table_of(LAYERS, [base, other]).verdict.startswith(
        "3 layers: 2 are slower and 1 is faster with intervals that exclude 0; the intervals do "
        "not tell which changes the most: b or a; b changes by 50.5 ns"
    )


def test_a_list_that_is_complete_is_not_called_cut() -> None:
    full = [layer(f"l{n}", float(n + 1)) for n in range(MOST_ROWS)]
    table = table_of(LAYERS, [source("e1", *full), source("e2", *full)])
    assert (len(table.rows), table.caveats) == (MOST_ROWS, ())
