"""A result as text: what says most, in lines a person reads."""

from typing import Any

import pytest

from mlscope.client.brief import SUMMARY, brief, caveat_lines, table_layout, text_of
from mlscope.client.results import ResultTable
from schemas.analysis import Column, Table

_NUMBERS = ("count", "failed", "median", "median_low", "p90")


def latency(*rows: tuple[Any, ...], **fields: Any) -> Table:
    texts = [Column(name=name, type="text") for name in ("run", "scenario")]
    numbers = [
        Column(name=name, type="float", unit="ns" if name[0] in "mp" else "1") for name in _NUMBERS
    ]
    columns = (*texts, *numbers)
    return Table(name="latency", title="Latency", columns=columns, rows=rows, **fields)


_ROW = ("b1", "online", 9, 0, 5e6, 4e6, 7e6)


def names(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def test_bounds_and_the_run_are_left_out() -> None:
    assert names(brief(latency(_ROW))) == ["scenario", "count", "median", "p90"]
    assert brief(latency(_ROW)).rows == (("online", 9, 5e6, 7e6),)


def test_failed_queries_are_shown_where_there_are_some() -> None:
    assert "failed" in names(brief(latency(_ROW, ("b2", "online", 9, 3, 5e6, 4e6, 7e6))))


def test_agents_are_named_where_there_are_several() -> None:
    table = latency(("a1", *_ROW[1:]), ("a2", *_ROW[1:]))
    agent = Column(name="agent", type="text")
    table = table.model_copy(update={"columns": (agent, *table.columns[1:])})
    assert names(brief(table))[0] == "agent"
    alike = table.model_copy(update={"rows": table.rows[:1] * 2})
    assert "agent" not in names(brief(alike))


def test_a_table_that_is_not_known_has_every_column_and_every_interval() -> None:
    numbers = ("time", "time_low", "time_high", "lost", "lost_low", "lost_high", "share")
    columns = [Column(name=name, type="float", unit="ns") for name in numbers[:6]]
    columns = [Column(name="name", type="text"), *columns, Column(name="share", type="float")]
    rows = (("conv", 5e6, 4e6, 6e6, 1e6, None, None, 0.5),)
    table = brief(Table(name="mine", title="Mine", columns=tuple(columns), rows=rows))
    assert names(table) == ["name", "time", "lost", "share"]
    assert table.rows == (("conv", "5.00 ms (4.00 … 6.00)", "1.00 ms (no interval)", 0.5),)


def test_a_bound_without_the_other_is_left_out() -> None:
    other = latency(_ROW).model_copy(update={"name": "mine"})
    assert names(brief(other)) == ["run", "scenario", "count", "median", "p90"]


def test_numbers_have_units_and_stand_to_the_right() -> None:
    layout = table_layout(brief(latency(_ROW)))
    assert layout.head == ["scenario  count  median   p90"]
    assert layout.body == ["online        9    5 ms  7 ms"]


@pytest.mark.parametrize(
    ("caveats", "lines"),
    [
        (["b1: few", "b2: few", "b2: late"], ["b1, b2: few", "b2: late"]),
        (["noisy"], ["noisy"]),
        (["a: b: c", "d: b: c"], ["a, d: b: c"]),
        (["a b: c: x", "d: c: x"], ["a b: c: x", "d: c: x"]),
        ([], []),
    ],
)
def test_caveats_that_differ_in_their_run_are_one(caveats: list[str], lines: list[str]) -> None:
    assert caveat_lines(caveats) == lines


def test_a_result_prints_as_a_table() -> None:
    table = latency(_ROW, verdict="All is well.", caveats=("b1: few",))
    assert str(ResultTable(table)) == text_of(table)
    assert text_of(table).splitlines()[0] == "Latency"
    assert text_of(table).splitlines()[-2:] == ["All is well.", "b1: few"]
    assert repr(ResultTable(table)) == "<ResultTable latency: 1 rows>"


def test_the_summary_is_latency_and_throughput() -> None:
    assert SUMMARY == ("latency", "throughput")


def test_what_runs_say_with_their_own_numbers_is_said_once() -> None:
    noisy = [f"b{n}: noisy: {70 + n}% of 2, {n}.5 s" for n in range(3)]
    to = "\N{HORIZONTAL ELLIPSIS}"
    assert caveat_lines(noisy) == [f"b0, b1, b2: noisy: 70{to}72% of 2, 0.5{to}2.5 s"]
    assert caveat_lines(noisy[:2]) == noisy[:2]


@pytest.mark.parametrize(
    "texts",
    [
        ("conv never ran", "conv1 never ran", "conv2 never ran"),
        ("layer4.0.conv1 never ran", "layer3.1.conv2 never ran", "layer2.0.conv3 never ran"),
        ("by 1.2.3 of", "by 1.4 of", "by 2 of it"),
    ],
)
def test_digits_of_names_and_versions_are_no_numbers(texts: tuple[str, ...]) -> None:
    caveats = [f"b{n}: {text}" for n, text in enumerate(texts)]
    assert caveat_lines(caveats) == caveats


def test_many_runs_are_not_all_named() -> None:
    assert caveat_lines([f"b{n}: slow" for n in range(6)]) == ["b0, b1, b2 and 3 other runs: slow"]


def _throughput(*runs: str) -> Table:
    columns = [Column(name=name, type="text") for name in ("run", "scenario", "level")]
    rate = Column(name="samples_per_s", type="float", unit="1/s")
    rows = tuple((run, "online", "framework", 9.0) for run in runs)
    return Table(name="throughput", title="Throughput", columns=(*columns, rate), rows=rows)


def test_runs_that_are_called_alike_are_named() -> None:
    both = brief(_throughput("b1-framework", "b1-serialised-framework"))
    assert both.columns[0].name == "run"
    assert brief(_throughput("b1")).columns[0].name == "scenario"


def test_headline_figures_have_their_intervals() -> None:
    names_of_numbers = ("trimmed_mean", "trimmed_mean_low", "trimmed_mean_high", "p90")
    columns = (
        Column(name="scenario", type="text"),
        *(Column(name=name, type="float", unit="ns") for name in names_of_numbers),
    )
    rows = (("online", 12.3e6, 12.1e6, 12.6e6, 13e6), ("cold", 5e6, None, None, None))
    table = brief(Table(name="latency", title="Latency", columns=columns, rows=rows))
    assert names(table) == ["scenario", "trimmed_mean", "p90"]
    assert table.rows == (
        ("online", "12.3 ms (12.1 … 12.6)", 13e6),
        ("cold", "5.00 ms (no interval)", None),
    )
