"""Tables on a page: what several say is said once, few columns first, what is alike told once."""

import re

from schemas.analysis import Column, Table, Tables
from services.gateway.pages.tables import tables_view
from services.gateway.rendering import environment
from tests.stories import E


def shown(*tables: Table) -> str:
    template = environment().from_string(
        '{% from "parts/tables.html" import sections %}{{ sections(view) }}'
    )
    return template.render(view=tables_view(Tables(evaluation=E, tables=tables)))


def a_table(
    name: str, columns: str, *rows: tuple[object, ...], caveats: tuple[str, ...] = ()
) -> Table:
    made = tuple(Column(name=each, type="float", unit="ns") for each in columns.split())
    return Table(name=name, title=name, columns=made, rows=rows, caveats=caveats)


def heads(html: str) -> list[str]:
    return re.findall(r"<th[^>]*>([^<]*)</th>", html)


def test_a_caveat_of_several_tables_is_said_once_before_all() -> None:
    first = a_table("latency", "a", (1,), caveats=("r0: noisy", "r0: few", "r1: noisy"))
    second = a_table("lateness", "a", (1,), caveats=("r0: noisy", "r1: noisy", "r0: early"))
    page = shown(first, second)
    assert page.count("noisy") == 1
    assert "<li>r0, r1: noisy</li>" in page
    assert page.index("noisy") < page.index('data-table="latency"') < page.index("r0: few")
    assert page.index('data-table="lateness"') < page.index("r0: early")


def test_without_shared_caveats_there_is_no_place_for_them() -> None:
    assert 'id="caveats"' not in shown(a_table("latency", "a", (1,), caveats=("r0: few",)))


def test_a_wide_table_shows_few_columns_and_all_below() -> None:
    columns = "run scenario loop count failed trimmed_mean median mean p90 p95 min"
    page = shown(a_table("latency", columns, tuple(range(11)), tuple(range(11))))
    few, every = page.split("<details>")
    assert heads(few) == ["run", "scenario", "count", "failed", "trimmed mean", "median", "p90"]
    assert len(heads(every)) == 11


def test_columns_that_say_nothing_are_left_to_all_columns() -> None:
    page = shown(a_table("latency", "run agent failed median", (1, 2, 0, 3), (2, 2, 0, 3)))
    assert heads(page.split("<details>")[0]) == ["run", "median"]


def test_where_it_ran_is_a_column_only_where_it_differs() -> None:
    rows = (("a1", "b1", 1), ("a1", "b1", 2))
    assert heads(shown(a_table("levels", "agent session time", *rows))) == ["time"]
    rows = (("a1", "b1", 1), ("a2", "b1", 2))
    assert heads(shown(a_table("levels", "agent session time", *rows))) == ["agent", "time"]


def test_an_empty_table_is_its_verdict() -> None:
    assert "<table>" not in shown(a_table("optimal_batch", "run gain"))


def test_an_interval_is_below_its_estimate_in_the_same_unit() -> None:
    page = shown(a_table("levels", "x x_low x_high", (5e6, 4e6, 6e6), (5e5, 4e5, 6e6)))
    assert "5.00 ms<small>4.00 … 6.00</small>" in page
    assert "500 µs<small>400 … 6000</small>" in page


def test_a_bound_that_is_not_known_is_not_passed_over() -> None:
    columns = "run p99 p99_low p99_high"
    page = shown(a_table("latency", columns, (1, 6e6, 4e6, None), (2, 6e6, None, None)))
    assert "6.00 ms<small>4.00 … unknown</small>" in page
    assert "6.00 ms<small>no interval</small>" in page


def test_a_unit_in_a_name_is_not_repeated_beside_another_in_the_cells() -> None:
    page = shown(a_table("throughput", "run busy_ns", (1, 5e6)))
    assert "<th title" not in page
    assert heads(page.split("<details>")[1]) == ["run", "busy"]
    assert ">5 ms</td>" in page


def test_a_map_is_told_as_names_and_values() -> None:
    column = Column(name="noise", type="text")
    rows = (('{"cpu_s": 3.672183, "faults": 0}',), ("{}",), ("{no json",))
    page = shown(Table(name="t", title="t", columns=(column,), rows=rows))
    assert "<td>cpu_s 3.67, faults 0</td><" in page
    assert "<td></td>" in page
    assert "<td>{no json</td>" in page


def test_what_a_run_s_name_says_is_marked_for_narrow_screens() -> None:
    page = shown(a_table("operators", "run level time", ("r0", 1, 2)))
    assert '<div class="wide named"' in page
    assert page.count("in-name") == 2
    assert "named" not in shown(a_table("outputs", "level time", (1, 2)))


def test_conditions_say_once_what_is_the_same_in_every_run() -> None:
    columns = tuple(Column(name=each, type="text") for each in ("run", "device", "note", "seed"))
    rows = (("r0", "cpu", "", "1"), ("r1", "cpu", "", "2"))
    page = shown(Table(name="conditions", title="c", columns=columns, rows=rows))
    assert heads(page) == ["run", "seed"]
    assert "<dt>device</dt><dd>cpu</dd>" in page
    assert "<dt>note</dt>" not in page
    alone = Table(name="conditions", title="c", columns=columns, rows=rows[:1])
    assert heads(shown(alone)) == ["run", "device", "note", "seed"]


def test_rows_that_are_alike_in_all_are_shown_as_they_are() -> None:
    page = shown(a_table("layer_latency", "run index", *[(1, 2)] * 5))
    assert heads(page) == ["run", "index"]
    assert "In every row" not in page


def test_what_all_of_many_rows_have_alike_is_said_above_them() -> None:
    rows = [(1, n, 7, 3, 3) for n in range(5)]
    page = shown(a_table("layer_latency", "run index ridge time time_low", *rows))
    assert '<p class="alike">In every row: run 1 ns, ridge 7 ns.</p>' in page
    assert heads(page) == ["index", "time"]


def test_few_rows_keep_their_columns() -> None:
    rows = [(1, n) for n in range(4)]
    assert heads(shown(a_table("layer_latency", "run index", *rows))) == ["run", "index"]


def test_a_percentile_has_its_point() -> None:
    page = shown(a_table("other", "run p99_9 read_bytes", ("r", 1, 2), ("s", 2, 3)))
    assert heads(page) == ["run", "p99.9", "read bytes"]


def test_a_moment_is_read_as_on_every_page() -> None:
    columns = (Column(name="requested", type="text"),)
    table = Table(name="history", title="", columns=columns, rows=(("2026-11-28T16:33:42Z",),))
    assert ">2026-11-28 16:33:42 UTC<" in shown(table)
