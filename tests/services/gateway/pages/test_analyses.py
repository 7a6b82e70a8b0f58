"""Views of analyses: subjects, reasons said once, selection, sorting, and columns said once."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.analysis import Column, Table
from schemas.status import EvaluationStatus
from services.analyzer.tables import ANALYSES
from services.gateway.pages.analyses import index_of
from services.gateway.pages.analysis import LAYER_TABLES, analysis_view
from services.gateway.pages.selection import (
    PAGE_ROWS,
    Selection,
    choices_of,
    layer_column,
    page_of,
    selected,
    selection_of,
)
from services.gateway.pages.subjects import GROUPS, OTHERS, group_of, question_of

STATUS = EvaluationStatus(evaluation="e1", model="m", state="analyzed", requested_ns=1)
NO_GPU = "No kernels: no run at level system traced a GPU."


def a_table(name: str = "layers", rows: Any = (), **fields: Any) -> Table:
    """Return a table of runs with a time in ns."""
    columns = (
        Column(name="run", type="text"),
        Column(name="batch_size", type="int"),
        Column(name="time", type="float", unit="ns", description="Its time."),
    )
    return Table(name=name, title=name, columns=columns, rows=tuple(rows), **fields)


def test_every_analysis_has_a_subject_and_a_question() -> None:
    names = {analysis.name for analysis in ANALYSES}
    assert {name for group in GROUPS.values() for name in group} == names
    assert all(question_of(name).endswith("?") for name in names)
    assert (group_of("of tomorrow"), question_of("of tomorrow")) == (OTHERS, "")


def test_every_table_with_a_row_for_each_layer_lets_a_reader_choose_one() -> None:
    by_layer = set()
    for analysis in ANALYSES:
        columns = analysis.columns
        # A row of a table with the column `layer_name` is of a kernel.
        is_of_kernels = any(column.name == "layer_name" for column in columns)
        if layer_column(a_table().model_copy(update={"columns": columns})) and not is_of_kernels:
            by_layer.add(analysis.name)
    assert by_layer == LAYER_TABLES


def test_analyses_that_are_empty_for_one_reason_are_named_together() -> None:
    tables = [
        a_table("latency", [("r", 1, 5.0)], verdict="Fast."),
        *(a_table(name, verdict=NO_GPU) for name in ("kernels", "device_use")),
    ]
    index = index_of("e1", tables, {"latency": 1, "kernels": 0, "device_use": 0})
    assert [(group.title, len(group.cards)) for group in index.groups] == [("Model", 1)]
    assert [(each.reason, each.titles) for each in index.empty] == [
        (NO_GPU, ["kernels", "device_use"])
    ]


def test_a_card_leads_to_the_number_where_there_is_one() -> None:
    table = a_table("layer_latency", [("r", 1, 5.0)], id="A3").model_copy(
        update={"title": "Latency of layers (A3)"}
    )
    (card,) = index_of("e1", [table], {}).cards
    assert (card.address, card.title) == ("/evaluations/e1/analyses/A3", "Latency of layers")


def test_analyses_of_another_version_are_still_shown() -> None:
    index = index_of("e1", [a_table("of_tomorrow", [("r", 1, 5.0)])], {})
    assert [group.title for group in index.groups] == [OTHERS]


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["r", "s"]), st.integers(1, 4), st.none() | st.floats(0, 10, width=32)
    ),
    max_size=30,
)


@given(ROWS, st.booleans())
def test_sorting_keeps_every_row_and_has_unknown_values_last(rows: Any, descends: bool) -> None:
    table = a_table(rows=rows)
    found = selected(table, Selection({}, sort="time", is_descending=descends)).rows
    assert sorted(map(str, found)) == sorted(map(str, rows))
    times = [row[2] for row in found]
    known = [time for time in times if time is not None]
    assert known == sorted(known, reverse=descends)
    assert times[: len(known)] == known


@given(ROWS, st.sampled_from(["r", "s", "t", ""]), st.sampled_from(["1", "4", ""]))
def test_a_filter_keeps_the_rows_with_its_values(rows: Any, run: str, batch: str) -> None:
    found = selected(a_table(rows=rows), Selection({"run": run, "batch_size": batch})).rows
    assert list(found) == [
        row for row in rows if run in ("", row[0]) and batch in ("", str(row[1]))
    ]


@given(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_whatever_an_address_asks_there_is_a_page(sort: str, page: str, run: str) -> None:
    table = a_table(rows=[("r", 1, 5.0), ("s", 2, None)])
    query = {"sort": sort, "page": page, "run": run, "order": sort}
    view = analysis_view(STATUS, table, index_of("e1", [table], {}), selection_of(query, table))
    assert view.count


def test_fifty_rows_are_a_page() -> None:
    table = a_table(rows=[("r", 1, float(n)) for n in range(120)])
    assert [len(page_of(table, n).rows) for n in (1, 2, 3, 4)] == [PAGE_ROWS, PAGE_ROWS, 20, 0]
    view = analysis_view(
        STATUS, table, index_of("e1", [table], {}), selection_of({"page": "2"}, table)
    )
    assert view.count == "Rows 51 to 100 of 120"
    assert [text for text, _ in view.pages] == ["Previous rows", "Next rows"]


def test_the_ends_of_a_hundred_thousand_rows_are_in_reach() -> None:
    table = of_layers(100_000)
    addresses = {}
    for query in ({}, {"page": "1000"}, {"layer": "99999"}):
        chosen = selection_of(query, table)
        view = analysis_view(STATUS, table, index_of("e1", [table], {}), chosen)
        addresses[view.selection.page] = dict(view.pages)
    assert addresses[1] == {"Next rows": "?page=2", "Last rows": "?page=2001"}
    ends = (addresses[1000]["First rows"], addresses[1000]["Last rows"])
    assert ends == ("/evaluations/e1/analyses/A2", "?page=2001")
    assert addresses[2000]["Next rows"] == "?layer=99999&page=2001"


def test_a_heading_sorts_and_sorts_the_other_way_when_it_already_does() -> None:
    table = a_table("layer_latency", rows=[("r", 1, 5.0), ("s", 2, 6.0)])
    index = index_of("e1", [table], {})
    plain = analysis_view(STATUS, table, index, selection_of({"run": "r"}, table))
    time = next(head for head in plain.heads if head.text == "time")
    assert time.address == "?run=r&sort=time&order=descending#table"
    query = {"sort": "time", "order": "descending"}
    heads = analysis_view(STATUS, table, index, selection_of(query, table)).heads
    again = next(head for head in heads if head.text == "time")
    assert (again.order, again.address) == ("descending", "?sort=time#table")


def test_layers_begin_with_the_longest_and_their_index_sorts_them_as_in_the_model() -> None:
    columns = ("index", "time")
    table = Table(
        name="layers",
        title="",
        columns=tuple(Column(name=name, type="float", unit="ns") for name in columns),
        rows=((0.0, 5.0), (1.0, 9.0), (2.0, None), (3.0, 7.0)),
    )
    index = index_of("e1", [table], {})
    view = analysis_view(STATUS, table, index, selection_of({}, table))
    assert [row[0].text for row in view.shown.rows] == ["1 ns", "3 ns", "0 ns", "2 ns"]
    place, time = view.heads
    assert (place.address, time.order) == ("?sort=index#table", "descending")
    as_in_model = analysis_view(STATUS, table, index, selection_of({"sort": "index"}, table))
    assert [row[0].text for row in as_in_model.shown.rows] == ["0 ns", "1 ns", "2 ns", "3 ns"]


def test_only_columns_with_several_values_can_be_chosen_from() -> None:
    table = a_table(rows=[("r", 1, 5.0), ("s", 1, 6.0)])
    assert choices_of(table) == {"run": ["r", "s"]}


def test_what_is_equal_in_all_rows_is_said_once() -> None:
    table = a_table(rows=[("r", 4, float(n)) for n in range(3)])
    view = analysis_view(STATUS, table, index_of("e1", [table], {}), Selection({"run": ""}))
    assert view.alike == "In every row: run r, batch size 4."
    assert [head.text for head in view.heads] == ["time"]


def of_layers(count: int, column: str = "node") -> Table:
    """Return a table with a row for each of `count` layers, and one of no layer."""
    columns = (Column(name="name", type="text"), Column(name=column, type="int"))
    rows = [*((f"layer{n}", n) for n in range(count)), ("rest", -1)]
    return Table(name="layers", id="A2", title="Layers", columns=columns, rows=tuple(rows))


def test_the_page_of_a_chosen_layer_is_opened_until_another_is_named() -> None:
    table, index = of_layers(3 * PAGE_ROWS), index_of("e1", (), {})
    layer = 2 * PAGE_ROWS + 3
    view = analysis_view(STATUS, table, index, selection_of({"layer": str(layer)}, table))
    assert view.selection.page == 3
    assert view.layers[3] == layer
    assert view.layer_address(0) == f"?layer={2 * PAGE_ROWS}#chosen"
    assert view.chosen == f"Layer {layer}, layer{layer}, is chosen"
    assert view.without_layer == "/evaluations/e1/analyses/A2"
    first, second = (
        analysis_view(STATUS, table, index, selection_of({"layer": str(layer), "page": n}, table))
        for n in "12"
    )
    assert first.selection.page == 1
    assert ("Previous rows", f"?layer={layer}&page=1") in second.pages


def test_a_choice_stays_in_every_address_and_says_where_it_has_no_row() -> None:
    table, index = of_layers(3, column="layer"), index_of("e1", (), {})
    view = analysis_view(STATUS, table, index, selection_of({"layer": "7"}, table))
    assert view.chosen == "Layer 7 has no row here"
    assert view.form.hidden_fields == [("layer", "7")]
    assert all("layer=7" in head.address for head in view.heads)
    assert (view.layers[-1], view.layer_address(3)) == (None, "")


def test_what_is_no_number_chooses_nothing() -> None:
    table = of_layers(3)
    for text in ("", "-1", "x", "9" * 40):
        assert selection_of({"layer": text}, table).layer is None
    assert selection_of({"layer": "1"}, a_table()).layer_column == ""
